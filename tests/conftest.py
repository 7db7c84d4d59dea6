"""Shared fixtures: a tiny network, and the command as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from accel_cli.commands import cli
from accel_cli.cuda.device import missing
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
settings.register_profile("accel", deadline=None, database=None)
settings.load_profile("accel")

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
            timeout=120,
            check=False,
            env={**clean_environment(tiny_path), **(environment or {})},
        )

    return call


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


def command(*arguments: str | Path) -> Sequence[str]:
    """The command line that runs accel from this checkout."""
    return [sys.executable, "-m", "accel_cli", *map(str, arguments)]
