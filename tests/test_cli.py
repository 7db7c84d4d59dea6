"""The command line as a whole: help, environment variables, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from conftest import ROOT, Accel

from accel_cli import __version__, commands
from accel_cli.commands import COMMANDS, cli
from accel_cli.errors import AccelError, DeviceError, InputError, UsageError

Here = Callable[..., bytes]


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and all below it, with their names."""
    yield name, command
    if isinstance(command, click.Group):
        for below in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), below)
            assert found is not None
            yield from walk(found, f"{name} {below}")


TREE = dict(walk(cli, "accel"))


def test_all_commands_are_there() -> None:
    assert {"run", "bench", "validate", "info", "weights", "kernels"} <= set(COMMANDS)
    assert {f"accel weights {name}" for name in ("init", "convert", "check")} <= set(TREE)


@pytest.mark.parametrize("name", TREE)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help(name: str, flag: str) -> None:
    assert TREE[name].help
    result = CliRunner().invoke(cli, [*name.split()[1:], flag], catch_exceptions=False)
    assert result.exit_code == 0
    assert "Usage: " in result.output
    assert str(TREE[name].help).split()[0] in result.output


@pytest.mark.parametrize("name", TREE)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_has_help_by_itself(name: str, flag: str) -> None:
    """However it is called first: click remembers what calls for help."""
    assert CliRunner().invoke(TREE[name], [flag]).exit_code == 0


@pytest.mark.parametrize("name", TREE)
def test_every_option_has_an_environment_variable(name: str) -> None:
    for option in TREE[name].params:
        if isinstance(option, click.Option) and option.name != "version":
            assert str(option.envvar).startswith("ACCEL_"), f"{name} {option.opts}"


@pytest.mark.parametrize("name", TREE)
def test_every_option_has_help(name: str) -> None:
    for option in TREE[name].params:
        assert not isinstance(option, click.Option) or option.help, f"{name} {option.opts}"


def test_help_and_its_list_import_no_command() -> None:
    """`accel --help` must be there at once: numpy alone takes longer than all the rest."""
    script = (
        "import sys; from accel_cli.commands import cli; cli.main(sys.argv[1:], standalone_mode=False);"
        "print([name for name in ('numpy', 'cupy', 'yaml', 'rich', 'safetensors', 'torch', 'asyncio')"
        " if name in sys.modules], file=sys.stderr)"
    )
    for flag in ("--help", "-h", "--version"):
        line = [sys.executable, "-c", script, flag]
        result = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True)
        assert result.stderr.strip() == "[]"
    assert result.stdout.strip() == f"accel, version {__version__}"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["wurn"], "No such command 'wurn'"),
        (["run", "--imput", "x"], "No such option"),
        (["run", "--batch", "0"], "0 is not in the range"),
        (["eval", "--min-accuracy", "nan"], "'nan' is no finite number"),
        (["run", "--batch", "many"], "'many' is not a valid integer"),
        (["run", "--format", "xml"], "'xml' is not one of"),
        (["run", "--input-format", "xml"], "'xml' is not one of"),
        (["run", "--on-error", "skip"], "'skip' is not one of"),
        (["run", "--precision", "int3"], "'int3' is not one of"),
        (["run", "--device", "cuda:x"], "'cuda:x' is not one of auto, cpu, cuda, cuda:N"),
        (["run", "stray.txt"], "unexpected extra argument"),
        (["weights", "brew"], "No such command 'brew'"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_wrong_usage_as_a_process(accel: Accel) -> None:
    for arguments in (["wurn"], ["run", "--imput", "x"], ["--imput"]):
        result = accel(*arguments)
        assert (result.returncode, result.stdout) == (2, b"")
        assert result.stderr.startswith(b"Usage: ")
        assert b"Traceback" not in result.stderr
    result = accel("run", "--fields", "wit", stdin=b"")  # found by ourselves, not by click
    assert (result.returncode, result.stderr[:7]) == (2, b"Error: ")


# Environment variables


def test_variables_stand_in_for_options(
    run_here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a b.txt", "c.txt")  # a blank in a name does not part it
    for name in names:
        (tmp_path / name).write_bytes(name.encode() + b"\n\xff\n")
    monkeypatch.setenv("ACCEL_INPUT", ":".join(str(tmp_path / name) for name in names))
    monkeypatch.setenv("ACCEL_FORMAT", "jsonl")
    monkeypatch.setenv("ACCEL_FIELDS", "text")
    assert (
        run_here()
        == '{"text": "a b.txt"}\n{"text": "\ufffd"}\n{"text": "c.txt"}\n{"text": "\ufffd"}\n'.encode()
    )
    assert run_here("--format", "tsv").startswith(b"a b.txt\n")  # an option overrules
    monkeypatch.setenv("ACCEL_ON_ERROR", "fail")
    with pytest.raises(InputError, match="are not UTF-8"):
        run_here()


def test_variables_of_the_plan(
    run_here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_bytes(b"id,body\n1,good\n")
    for name, value in {"INPUT": tmp_path / "in.csv", "COLUMN": "body", "BATCH": 3, "STREAMS": 5}.items():
        monkeypatch.setenv(f"ACCEL_{name}", str(value))
    monkeypatch.setenv("ACCEL_DEVICE", "cpu")
    monkeypatch.setenv("ACCEL_PRECISION", "")  # empty is unset
    assert len(run_here().splitlines()) == 1
    plan = capsys.readouterr().err.splitlines()[0]
    assert plan == "accel: device=cpu precision=fp32 convolution=folded experts=separate batch=3 streams=5"
    monkeypatch.setenv("ACCEL_BATCH", "none")
    with pytest.raises(click.BadParameter):
        run_here()


def test_variables_of_the_output(accel_here: Accel, tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("old")
    variables = {"ACCEL_OUTPUT": str(path)}
    assert accel_here("run", stdin=b"good\n", environment=variables).returncode == 1
    variables["ACCEL_OVERWRITE"] = "1"
    assert accel_here("run", stdin=b"good\n", environment=variables).returncode == 0
    assert path.read_text() != "old"


# Errors, as `main` shows them


def outcome(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: BaseException
) -> tuple[int, str]:
    """The exit code and stderr of `main` when a command fails so."""

    def fail(**settings: object) -> None:
        raise failure

    left: list[int] = []

    def leave(code: int) -> None:
        left.append(code)
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    monkeypatch.setattr(cli, "main", fail)
    with pytest.raises(SystemExit):
        commands.main()
    return left[0], capsys.readouterr().err


def kinds(base: type[AccelError]) -> Iterator[type[AccelError]]:
    yield base
    for below in base.__subclasses__():
        yield from kinds(below)


@pytest.mark.parametrize("kind", list(kinds(AccelError)))
def test_errors_of_ours_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: type[AccelError]
) -> None:
    monkeypatch.setenv("ACCEL_DEBUG", "0")
    code, said = outcome(monkeypatch, capsys, kind("the cause; the remedy"))
    assert said == "Error: the cause; the remedy\n"
    assert code == (2 if issubclass(kind, UsageError) else 1)


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (SystemExit(143), 143, ""),
        (SystemExit(), 0, ""),
        (MemoryError(), 1, "Error: this machine's memory is full; use a smaller --batch\n"),
        (
            OSError(28, "No space left", "a.txt"),
            1,
            "Error: [Errno 28] No space left: 'a.txt'; --debug shows where\n",
        ),
        (
            OSError(28, "No space left"),
            1,
            "Error: cannot write the output: No space left; free some space or send it elsewhere\n",
        ),
        (click.UsageError("so not"), 2, "Error: so not\n"),
    ],
)
def test_how_commands_may_end(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: BaseException,
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("ACCEL_DEBUG", "0")
    assert outcome(monkeypatch, capsys, failure) == (code, said)


def test_debug_shows_the_traceback(accel: Accel, accel_here: Accel, tmp_path: Path) -> None:
    arguments = ("run", "--input", tmp_path / "none.txt")
    plain = accel_here(*arguments)
    assert plain.stderr.count(b"\n") == 1
    for shown in (accel("--debug", *arguments), accel(*arguments, environment={"ACCEL_DEBUG": "1"})):
        assert shown.returncode == 1
        assert b"Traceback (most recent call last)" in shown.stderr
        assert b"InputError: cannot read" in shown.stderr
    assert b"Traceback" not in accel_here(*arguments, environment={"ACCEL_DEBUG": "false"}).stderr


def test_a_reader_of_help_that_has_enough() -> None:
    line = f"{sys.executable} -m accel_cli --help | true; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


def test_info_says_what_is_missing(accel_here: Accel) -> None:
    result = accel_here("info", "--device", "cpu")
    assert result.returncode == 0
    text = result.stdout.decode()
    assert f"accel          {__version__}" in text
    assert "GPU " in text
    assert "configuration  tiny" in text
    plan = accel_here("info", "--plan", "--device", "cpu", "--batch", "7").stdout.decode()
    assert "device: cpu\n" in plan
    assert "batch: 7\n" in plan


def test_a_device_error_is_no_usage_error() -> None:
    assert DeviceError.exit_code == 1
