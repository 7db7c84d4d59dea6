"""The command line. A command's module is imported when it is called: `accel --help` loads none of them."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import warnings
from typing import Any, NoReturn, TextIO

import click

from accel_cli import __version__
from accel_cli.commands.signals import Interruptions
from accel_cli.errors import AccelError, AccelWarning

COMMANDS = {
    "run": "Classify sentences from files or stdin.",
    "serve": "Serve a model over HTTP, to known clients and to people.",
    "eval": "Compare a model's labels with those in a file.",
    "train": "Train a model on your own labels.",
    "bench": "Measure how fast a plan runs here.",
    "plan-scale": "Plan a large text on paper, from measured figures.",
    "tune": "Find what is fastest for a model on this GPU, and keep it.",
    "validate": "Check every engine and plan against golden outputs.",
    "info": "Show versions, devices and the plan that would be used.",
    "weights": "Generate, convert and check weights.",
    "compile": "Compile the kernels of a plan ahead of time, for machines without a compiler.",
    "kernels": "Compile every kernel, without a GPU, and show what it takes.",
}
_FULL = (errno.ENOSPC, errno.EDQUOT)
HELP = {"help_option_names": ("-h", "--help")}  # of every command, in whatever way it is called


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"accel_cli.commands.{cmd_name.replace('-', '_')}"
        ).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings=HELP)
@click.version_option(__version__, prog_name="accel")
@click.option(
    "--debug", is_flag=True, envvar="ACCEL_DEBUG", show_envvar=True, help="Show the traceback of an error."
)
def cli(debug: bool) -> None:
    """A fast sentence classifier: text in, labels out."""
    os.environ["ACCEL_DEBUG"] = "1" if debug else "0"


def main() -> NoReturn:
    """Run the command line and exit: 0 well, 1 failed, 2 called wrongly, 128 + N by signal N."""
    # The CPU engine has threads of its own; BLAS threads inside them would only be in the way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.showwarning = show_warning
    stdout = sys.stdout
    try:
        with Interruptions():
            code = cli.main(standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (AccelError, OSError, MemoryError) as error:
        if os.environ.get("ACCEL_DEBUG") == "1":
            raise
        code = complain(error)
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except SystemExit as leaving:
        # click swaps stdout and exits with 1 when its reader has gone; `accel --help | head -1` did well
        code = leaving.code or 0 if sys.stdout is stdout else 0
    _leave(code)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings as one line; those of libraries with the place where they came up."""
    own = issubclass(category, AccelWarning)
    with contextlib.suppress(OSError):
        click.echo(f"accel: {message}" if own else f"{filename}:{lineno}: {message}", err=True)


def complain(error: AccelError | OSError | MemoryError) -> int:
    """Say what went wrong, in one line, and give the exit code."""
    with contextlib.suppress(OSError):
        click.echo(f"Error: {_said(error)}", err=True)
    return error.exit_code if isinstance(error, AccelError) else 1


def _said(error: AccelError | OSError | MemoryError) -> str:
    if isinstance(error, AccelError):
        return str(error)
    if isinstance(error, MemoryError):
        return "this machine's memory is full; use a smaller --batch"
    if error.errno in _FULL and error.filename is None:  # of a write: to stdout, or to a file of figures
        return f"cannot write the output: {error.strerror}; free some space or send it elsewhere"
    return f"{error}; --debug shows where"


def _leave(code: Any) -> NoReturn:
    """Exit at once: after a fatal CUDA error the interpreter's own way out prints a storm of tracebacks."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be full, closed or None
            stream.flush()
    os._exit(int(code))
