"""Worker processes for real: killed, orphaned, interrupted, and every row there once in the end."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, clean_environment, command, needs_gpu, no_signal_ignored, ours
from disks import mounted

from accel_cli.errors import AccelWarning, OutputError
from accel_cli.shards import lock
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.local import run_here, run_locally
from accel_cli.shards.part import HIDDEN
from accel_cli.shards.processes import run_processes
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.shards.tally import Tally
from accel_cli.text.readers import Source
from shards.conftest import Here
from shards.deadly import Deadly, Thief

Start = Callable[..., "subprocess.Popen[bytes]"]
LINES = 12_000
SHARD = 24_000  # bytes: an eighth of them
PATIENCE = 120.0  # seconds for what takes some on a machine with nothing else to do


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of several shards."""
    path = tmp_path_factory.mktemp("many") / "many.txt"
    path.write_bytes(b"".join(b"%d good film\n" % number for number in range(LINES)))
    return path


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    """While this file is there, no run that is held goes on behind its first part."""
    path = tmp_path / "hold"
    path.touch()
    return path


@pytest.fixture
def start(tiny_path: Path, many: Path, tmp_path: Path) -> Iterator[Start]:
    """Start `accel run` into `out`, with small batches; whoever is left in the end is killed."""
    started = []

    def call(*arguments: str | Path, hold: Path | None = None) -> subprocess.Popen[bytes]:
        fixed = ("--input", many, "--output", f"{tmp_path}/out/", "--shard-size", str(SHARD), "--batch", "32")
        line = command("run", *fixed, "--fields", "text,label", "--device", "cpu", *arguments)
        if hold is not None:
            line = [sys.executable, str(ROOT / "tests" / "held_run.py"), *line[3:]]
        process = subprocess.Popen(
            line,
            cwd=ROOT,
            env={**clean_environment(tiny_path), "HELD": str(hold)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=no_signal_ignored,
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


def check_rows(folder: Path, lines: int = LINES) -> None:
    """All rows once each and in order."""
    rows = b"".join(path.read_bytes() for path in sorted(folder.glob("part-*"))).splitlines()
    assert [row.split(b" ")[0] for row in rows] == [b"%d" % number for number in range(lines)]


def children_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that it started and that are there."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not listed.exists():
        pytest.skip("needs the children of a process in /proc")
    return [int(number) for number in listed.read_text().split()]


def wait_for(happened: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    while not happened():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def wait_for_end(numbers: list[int]) -> None:
    """Until the processes of these numbers are gone."""
    until = time.monotonic() + PATIENCE
    while left := [number for number in numbers if Path(f"/proc/{number}").exists()]:
        assert time.monotonic() < until, left
        time.sleep(0.02)


def small_batches(job: Job) -> Job:
    return replace(job, config=replace(job.config, plan=job.config.plan.overridden(batch=16)))


def uneven(folder: Path, deaths: int) -> list[Shard]:
    """Three shards, of which number 1 kills the first workers that it has."""
    numbers = iter(range(4_000))
    for name, count in (("a.txt", 500), ("b.txt", 3_000), ("c.txt", 500)):
        (folder / name).write_bytes(b"".join(b"%d good film\n" % next(numbers) for _ in range(count)))
    (folder / "b.txt.lives").mkdir()
    for death in range(deaths):
        (folder / "b.txt.lives" / str(death)).touch()
    shards = shards_of([Source(str(folder / name)) for name in ("a.txt", "b.txt", "c.txt")], 1 << 20)
    return [shards[0], Deadly(**vars(shards[1])), shards[2]]


def test_a_worker_that_is_killed_is_replaced(job: Job, folder: OutputFolder, tmp_path: Path) -> None:
    tally = Tally()
    with pytest.warns(AccelWarning, match=r"b.txt, .* ended by signal 9 \(Killed\)\); it is tried once more"):
        run_processes(small_batches(job), uneven(tmp_path, 1), ["cpu"], tally, folder.lock)
    assert tally.failures == []
    assert sorted(tally.written) == [0, 1, 2]
    check_rows(folder.path, 4_000)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_part_that_cannot_be_finished_ends_the_run(
    job: Job, folder: OutputFolder, tmp_path: Path, workers: int
) -> None:
    """All its rows are written, and the next shard is under way."""
    (folder.path / HIDDEN / "part-000000.json").mkdir()
    tally = Tally()
    with pytest.raises(OutputError, match=r"part-000000.json is a folder; move it away, then go on with"):
        run_locally(job, uneven(tmp_path, 0), ["cpu"] * workers, tally, folder.lock)
    assert 0 not in tally.written
    assert not (folder.path / "part-000000.tsv").exists()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("run", [run_here, run_processes])
def test_a_folder_that_goes_away_ends_the_run(
    job: Job, folder: OutputFolder, tmp_path: Path, run: Any, recwarn: pytest.WarningsRecorder
) -> None:
    """The shard under way is not to blame, and not tried again."""
    thief, tally = Thief(**vars(uneven(tmp_path, 0)[1])), Tally()
    (tmp_path / "b.txt.output").write_text(str(folder.path))
    how = ("cpu", tally) if run is run_here else (["cpu"], tally, folder.lock)
    with pytest.raises(OutputError, match=r"^cannot write .*: No such file or directory; mend that, then go"):
        run(job, [thief], *how)
    assert tally.failures == []
    assert not ours(recwarn)
    assert multiprocessing.active_children() == []


def test_kill_9_of_the_parent_and_resume(
    start: Start,
    hold: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    run_into: Here,
    many: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", PATIENCE)
    out = tmp_path / "out"
    process = start("--workers", "2", hold=hold)
    wait_for(lambda: list(out.glob("part-*")), process)
    workers = children_of(process)
    process.kill()
    process.wait()
    run_into("--input", many, "--fields", "text,label", "--resume")  # waits until the workers are gone
    wait_for_end(workers)
    check_rows(out)
    assert "accel: 8 shards, 1 of them done before" in capsys.readouterr().err
    assert [path.name for path in (out / HIDDEN).glob(".part*")] == []


# Slower ones


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore::accel_cli.errors.AccelWarning")
def test_a_shard_that_kills_its_workers(job: Job, folder: OutputFolder, tmp_path: Path) -> None:
    tally, shards = Tally(), uneven(tmp_path, 2)
    run_processes(small_batches(job), shards, ["cpu"], tally, folder.lock)
    assert [str(failure) for failure in tally.failures] == [
        f"{shards[1]} (its worker was ended by signal 9 (Killed))"
    ]
    assert sorted(tally.written) == [0, 2]


@pytest.mark.extras
@pytest.mark.parametrize("workers", ["1", "2", "3"])
def test_the_same_bytes_as_one_process(
    start: Start, tmp_path: Path, workers: str, many: Path, tiny_path: Path
) -> None:
    process = start("--workers", workers, "--merge", tmp_path / "all.tsv")
    said = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 0, said
    line = command("run", "--input", many, "--fields", "text,label", "--device", "cpu")
    single = subprocess.run(line, cwd=ROOT, env=clean_environment(tiny_path), capture_output=True, check=True)
    assert (tmp_path / "all.tsv").read_bytes() == single.stdout
    check_rows(tmp_path / "out")


@pytest.mark.extras
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("to_all", [False, True], ids=["parent", "terminal"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal(
    start: Start, hold: Path, tmp_path: Path, number: signal.Signals, code: int, to_all: bool, workers: str
) -> None:
    """To the parent, or to all processes, as a terminal does with Ctrl-C."""
    out = tmp_path / "out"
    process = start("--workers", workers, hold=hold)
    wait_for(lambda: list(out.glob("part-*")), process)
    children = children_of(process)
    (os.killpg if to_all else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    wait_for_end(children)
    assert said.decode().strip().splitlines()[-1] == (
        f"accel: stopped early; 1 of 8 parts in {out} are whole; --resume goes on from there"
    )
    assert b"Traceback" not in said
    assert list(out.rglob(".part*")) == []
    process = start("--resume")
    assert process.wait(PATIENCE) == 0
    check_rows(out)


@pytest.mark.extras
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 0.6])
def test_ctrl_c_while_workers_start(start: Start, hold: Path, delay: float) -> None:
    process = start("--workers", "2", hold=hold)
    wait_for(lambda: len(children_of(process)) > 1, process)
    children = children_of(process)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in said
    wait_for_end(children)


@pytest.mark.extras
def test_a_second_run_into_the_same_folder(start: Start, hold: Path, tmp_path: Path) -> None:
    first = start("--workers", "2", hold=hold)
    wait_for(lambda: list((tmp_path / "out").rglob("part-*")), first)
    second = start("--resume")
    said = second.communicate(timeout=PATIENCE)[1].decode()
    hold.unlink()
    assert second.returncode == 1
    assert f"another run (process {first.pid}) is at work in {tmp_path}/out; wait until it has ended" in said
    assert first.wait(PATIENCE) == 0
    check_rows(tmp_path / "out")


@pytest.mark.extras
def test_a_bad_record_among_workers(tiny_path: Path, tmp_path: Path) -> None:
    """It ends the run; what workers warn of is said as it is by a run without them."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "good"}\n' * 30 + "{\n" + '{"text": "bad"}\n' * 30)
    options = ("--input", path, "--output", f"{tmp_path}/out/", "--workers", "2", "--shard-size", "100")
    done = subprocess.run(
        command("run", *options),
        cwd=ROOT,
        env={**clean_environment(tiny_path), "ACCEL_CACHE_DIR": "/proc/none"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    said = done.stderr.decode()
    assert done.returncode == 1
    assert re.search(
        r"^Error: .*in.jsonl, bytes \d+ to \d+, line \d+ there: not valid JSON", said, re.MULTILINE
    )
    assert re.search(
        r"^accel: stopped early; \d+ of \d+ parts .*; --resume --on-error replace", said, re.MULTILINE
    )
    assert re.search(
        r"^accel: the generated weights are not kept: cannot write /proc/none", said, re.MULTILINE
    )
    assert "Traceback" not in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder `out` as a file system of 128 KiB."""
    with mounted(tmp_path / "out", "128k") as folder:
        yield folder


@pytest.mark.extras
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_full_disk(start: Start, small_disk: Path, workers: str) -> None:
    process = start("--workers", workers)
    said = process.communicate(timeout=PATIENCE)[1].decode()
    assert process.returncode == 1
    assert re.search(
        r"Error: cannot write .*: No space left on device; free some space, then go on with --resume", said
    )
    assert list(small_disk.rglob(".part*")) == []
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert start("--workers", workers, "--resume").wait(PATIENCE) == 0
    check_rows(small_disk)


@pytest.mark.extras
def test_a_file_that_may_not_grow(tiny_path: Path, many: Path, tmp_path: Path) -> None:
    line = command(
        "run", "--input", many, "--output", f"{tmp_path}/out/", "--workers", "2", "--shard-size", "24k"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    done = subprocess.run(
        line,
        cwd=ROOT,
        env=clean_environment(tiny_path),
        capture_output=True,
        timeout=PATIENCE,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 1
    assert (
        b"File too large; raise the limit of a file's size (ulimit -f), then go on with --resume"
        in done.stderr
    )
    assert list((tmp_path / "out").glob("*part-*")) == []


@pytest.mark.gpu
@needs_gpu
def test_two_workers_on_one_gpu(start: Start, tmp_path: Path, many: Path, tiny_path: Path) -> None:
    process = start("--device", "cuda:0,0")
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, said
    check_rows(tmp_path / "out")
    line = command("run", "--input", many, "--fields", "text,label", "--device", "cuda:0")
    single = subprocess.run(line, cwd=ROOT, env=clean_environment(tiny_path), capture_output=True, check=True)
    rows = b"".join(path.read_bytes() for path in sorted((tmp_path / "out").glob("part-*")))
    assert rows == single.stdout
