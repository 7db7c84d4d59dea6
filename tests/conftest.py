"""Shared fixtures: a tiny network, and the command as a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from accel_cli import commands
from accel_cli.commands import cli
from accel_cli.cuda.device import missing
from accel_cli.errors import AccelWarning
from accel_cli.model.config import Config, load_config
from accel_cli.text.vocabulary import save_vocabulary

ROOT = Path(__file__).resolve().parent.parent

TINY = """\
name: tiny
model:
  vocabulary: vocabulary.txt
  vocabulary_size: 40
  length: ragged
  max_tokens: 24
  embedding: 12
  widths: [3, 5]
  filters: 10
  experts: 3
  expert_hidden: 6
  fully_connected: [7, 2]
  labels: [negative, positive]
  weights: {seed: 7}
"""
WORDS = [b"good", b"bad", b"film", b"not", b"a", b"the", b".", b",", b"n't", b"'s"]

# No deadlines: a busy machine is no failure. No database: nothing is left in the checkout.
settings.register_profile("accel", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("accel")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for jobs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

Accel = Callable[..., "subprocess.CompletedProcess[bytes]"]

needs_gpu = pytest.mark.skipif(missing() is not None, reason=f"no CUDA device: {missing()}")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or fills the user's cache."""
    os.environ["ACCEL_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration file of a tiny network with generated weights."""
    folder = tmp_path_factory.mktemp("tiny")
    words = WORDS + [b"w%d" % i for i in range(38 - len(WORDS))]
    save_vocabulary(folder / "vocabulary.txt", words)
    (folder / "tiny.yaml").write_text(TINY)
    return folder / "tiny.yaml"


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Config:
    """The tiny network's configuration."""
    return load_config(tiny_path)


@pytest.fixture
def accel(tiny_path: Path) -> Accel:
    """Run `accel` as a process of its own, with the tiny network unless --config is given."""

    def call(
        *arguments: str | Path, stdin: bytes = b"", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command(*arguments),
            input=stdin,
            capture_output=True,
            timeout=600,
            check=False,
            env={**clean_environment(tiny_path), **(environment or {})},
        )

    return call


@pytest.fixture
def accel_here(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Accel:
    """The same within this process: for what a command does and says, not for how its process lives."""

    def leave(code: int) -> NoReturn:
        raise SystemExit(code)

    # the last two are what `accel` itself sets
    fixed = {"ACCEL_CONFIG": str(tiny_path), "ACCEL_DEBUG": "0", "OPENBLAS_NUM_THREADS": "1"}

    def call(
        *arguments: str | Path, stdin: bytes = b"", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        line = ["accel", *map(str, arguments)]
        with monkeypatch.context() as patch, standard_input(stdin):
            for name, value in {**fixed, **(environment or {})}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", line)
            patch.setattr(sys, "stdin", open(0, closefd=False))  # noqa: SIM115
            patch.setattr(commands, "_leave", leave)
            with pytest.raises(SystemExit) as left:
                commands.main()
        said = capfdbinary.readouterr()
        return subprocess.CompletedProcess(line, int(left.value.code or 0), said.out, said.err)

    return call


@contextmanager
def standard_input(data: bytes) -> Iterator[None]:
    """These bytes as the standard input of this process."""
    before = os.dup(0)
    try:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            os.dup2(file.fileno(), 0)
            yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def clean_environment(config: Path) -> dict[str, str]:
    """The environment of a process that runs accel from this checkout with a configuration."""
    return {**os.environ, "ACCEL_CONFIG": str(config), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def run_here(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """`accel run` within this process: gives the rows, or raises the AccelError that `accel` would show."""
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))

    def call(*arguments: str | Path) -> bytes:
        output = tmp_path / "rows.out"
        line = ["run", *map(str, arguments), "--output", str(output), "--overwrite"]
        cli.main(line, standalone_mode=False)
        return output.read_bytes()

    return call


def read(pid: int, name: str) -> bytes:
    """A file that the kernel has of a process; empty if it has ended.

    The command line is so even before somebody has asked for the exit code.
    """
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def no_signal_ignored() -> None:
    """In a process that is being started: undo what a shell, or nohup, does to jobs in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def ours(said: pytest.WarningsRecorder) -> list[str]:
    """The warnings of accel; what other tests have left open may warn of itself at any time."""
    return [str(one.message) for one in said if issubclass(one.category, AccelWarning)]


def command(*arguments: str | Path) -> Sequence[str]:
    """The command line that runs accel from this checkout."""
    return [sys.executable, "-m", "accel_cli", *map(str, arguments)]
