"""Several GPUs: the rows of one, also when a worker is killed or a device has no memory left."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import needs_gpu

from accel_cli.cuda.device import cupy, missing
from accel_cli.errors import AccelWarning
from accel_cli.model.config import load_config
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.processes import WorkersFailed, run_processes
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.shards.tally import Tally
from accel_cli.text.readers import Source

LINES, SHARD = 400_000, 1 << 20


def _gpus() -> int:
    return 0 if missing() else int(cupy().cuda.runtime.getDeviceCount())


pytestmark = [pytest.mark.gpu, needs_gpu]
needs_two = pytest.mark.skipif(_gpus() < 2, reason=f"needs two GPUs, {_gpus()} here")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Shard]:
    """Of numbered lines, so that a row that is out of order shows."""
    path = tmp_path_factory.mktemp("many") / "many.txt"
    words = ("good", "bad", "dull", "lovely", "not")
    path.write_text(
        "".join(f"a {words[number % 5]} film, number {number * 7919}\n" for number in range(LINES))
    )
    return shards_of([Source(str(path))], SHARD)


def rows(
    shards: Sequence[Shard], devices: Sequence[str], output: Path, tally: Tally | None = None
) -> list[bytes]:
    """The content of each part that workers on some devices write."""
    tally = tally or Tally()
    with OutputFolder.opened(output) as folder:
        run_processes(Job(load_config("sentiment"), output), shards, devices, tally, folder.lock)
    tally.check()
    return [path.read_bytes() for path in sorted(output.glob("part-*"))]


@pytest.fixture(scope="module")
def alone(shards: list[Shard], tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What one GPU writes."""
    found = rows(shards, ["cuda:0"], tmp_path_factory.mktemp("alone") / "out")
    assert b"".join(found).count(b"\n") == LINES
    return found


@contextmanager
def filled(index: int) -> Iterator[None]:
    """A device with all its memory taken but some MiB."""
    runtime = cupy().cuda.runtime
    taken: list[int] = []
    with cupy().cuda.Device(index):
        cupy().get_default_memory_pool().free_all_blocks()
        size = int(runtime.memGetInfo()[0])
        while size >= 64 << 20:
            try:
                taken.append(runtime.malloc(size))
            except runtime.CUDARuntimeError:
                size //= 2
        try:
            yield
        finally:
            for pointer in taken:
                runtime.free(pointer)


class Killer(Tally):
    """Kills one worker at the first sign of progress with a shard."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.killed = 0
        self._number = number

    def progress(self, shard: Shard, sentences: int, read: int) -> None:
        super().progress(shard, sentences, read)
        if shard.number == self._number and sentences and not self.killed:
            [self.killed, *_] = [int(each) for each in _children()]
            os.kill(self.killed, signal.SIGKILL)


def _children() -> list[str]:
    """The processes that workers are, the oldest first; the resource tracker is none."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [each for each in listed if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]


@needs_two
@pytest.mark.parametrize("device", ["cuda:0,1", "cuda:1,0,1,0"])
def test_the_bytes_of_one_gpu(shards: list[Shard], alone: list[bytes], tmp_path: Path, device: str) -> None:
    devices = [f"cuda:{number}" for number in device.removeprefix("cuda:").split(",")]
    assert rows(shards, devices, tmp_path / "out") == alone


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param(("cuda:0", "cuda:1"), marks=needs_two),
        ("cuda:0", "cuda:0"),
    ],
    ids=["two", "one"],
)
def test_a_worker_that_is_killed(
    shards: list[Shard], alone: list[bytes], tmp_path: Path, devices: tuple[str, ...]
) -> None:
    tally = Killer(len(shards) // 2)
    with pytest.warns(AccelWarning, match="ended by signal 9"):
        found = rows(shards, devices, tmp_path / "out", tally)
    assert tally.killed
    assert found == alone


@needs_two
def test_a_gpu_without_memory_leaves_its_shards_to_the_other(
    shards: list[Shard], alone: list[bytes], tmp_path: Path
) -> None:
    with filled(1), pytest.warns(AccelWarning, match="failed .*; it is tried once more"):
        found = rows(shards, ["cuda:0", "cuda:1"], tmp_path / "out")
    assert found == alone


def test_no_gpu_with_memory_is_said(shards: list[Shard], tmp_path: Path) -> None:
    with filled(0), pytest.warns(AccelWarning), pytest.raises(WorkersFailed, match=r"(?i)memory"):
        rows(shards, ["cuda:0"], tmp_path / "out")
    assert list((tmp_path / "out").glob("part-*")) == []
