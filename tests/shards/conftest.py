"""A folder to write parts into, and numbered lines to make them of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accel_cli.commands import cli
from accel_cli.model.config import Config
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job

Here = Callable[..., None]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A hundred lines of 10 bytes or so, each of which says which it is."""
    path = tmp_path / "lines.txt"
    path.write_bytes(b"".join(b"%d a film\n" % number for number in range(100)))
    return path


@pytest.fixture
def job(tiny: Config, tmp_path: Path) -> Job:
    """The tiny network, into a folder that is not there yet."""
    return Job(tiny, tmp_path / "out", fields=("text", "label"))


@pytest.fixture
def folder(job: Job) -> Iterator[OutputFolder]:
    """The folder of the job, made."""
    with OutputFolder.opened(job.output) as opened:
        yield opened


@pytest.fixture
def run_into(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """`accel run` into the folder `out`, in this process; raises the AccelError that `accel` would show."""
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))

    def call(*arguments: str | Path) -> None:
        line = ["run", *map(str, arguments), "--output", f"{tmp_path}/out/", "--device", "cpu"]
        cli.main(line, standalone_mode=False)

    return call
