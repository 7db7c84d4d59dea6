"""The command line. A command's module is imported when it is called: `accel --help` loads none of them."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any, NoReturn

import click

from accel_cli import __version__
from accel_cli.errors import AccelError

COMMANDS = {
    "run": "Classify sentences from files or stdin.",
    "bench": "Measure how fast a plan runs here.",
    "validate": "Check every engine and plan against golden outputs.",
    "info": "Show versions, devices and the plan that would be used.",
    "weights": "Generate, convert and check weights.",
    "kernels": "Compile every kernel, without a GPU, and show what it takes.",
}


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"accel_cli.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="accel")
@click.option("--debug", is_flag=True, envvar="ACCEL_DEBUG", help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """The fastest sentence classifier there is: text in, labels out."""


def main() -> NoReturn:
    """Run the command line and exit: 0 well, 1 failed, 2 called wrongly, 130 by Ctrl-C, 143 by SIGTERM."""
    # The CPU engine has threads of its own; BLAS threads inside them would only be in the way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    debug = "--debug" in sys.argv[1:2] or os.environ.get("ACCEL_DEBUG", "") not in ("", "0")
    try:
        code = cli.main(standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except AccelError as error:
        if debug:
            raise
        click.echo(f"Error: {error}", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except SystemExit as leaving:
        code = leaving.code or 0
    except MemoryError:
        click.echo("Error: this machine's memory is full; use a smaller --batch", err=True)
        code = 1
    _leave(code)


def _leave(code: Any) -> NoReturn:
    """Exit at once: after a fatal CUDA error the interpreter's own way out prints a storm of tracebacks."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(int(code))
