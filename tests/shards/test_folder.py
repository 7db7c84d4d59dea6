"""The output folder: begun, gone on with or overwritten, and nothing of the user's lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, ours

from accel_cli.errors import OutputError
from accel_cli.pipeline import Summary
from accel_cli.shards import lock
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.manifest import Manifest
from accel_cli.shards.part import HIDDEN, Parts


def manifest(job: Job, shards: int = 3, layout: str = "tsv") -> Manifest:
    return Manifest(**{**vars(Manifest.of(job, [], 64, shards)), "layout": layout})


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.name != HIDDEN)


def finished(job: Job, *numbers: int) -> Parts:
    """A run of three shards, of which some have their parts."""
    with OutputFolder.opened(job.output) as folder:
        parts = folder.begin(manifest(job))
        for number in numbers:
            parts.path(number).write_text("x")
            parts.keep_counts(number, Summary(1), 1)
    return parts


def test_a_new_folder_with_those_above_it(job: Job, tmp_path: Path) -> None:
    with OutputFolder.opened(tmp_path / "a" / "b") as folder:
        assert folder.manifest is None
        folder.begin(manifest(job))
    assert names(tmp_path / "a" / "b") == []


def test_a_folder_that_holds_something_else_is_left_as_it_is(job: Job) -> None:
    job.output.mkdir()
    (job.output / "thesis.txt").write_text("all of it")
    with (
        pytest.raises(OutputError, match=r"holds thesis.txt and has no manifest of accel; name a new folder"),
        OutputFolder.opened(job.output),
    ):
        pass
    assert [entry.name for entry in job.output.iterdir()] == ["thesis.txt"]


def test_a_run_before_is_refused_unless_it_wrote_nothing(job: Job) -> None:
    finished(job)
    finished(job, 0, 2)
    with (
        pytest.raises(OutputError, match="holds 2 of 3 parts of a run before; say --resume to go on with it"),
        OutputFolder.opened(job.output) as folder,
    ):
        folder.begin(manifest(job))
    assert names(job.output) == ["part-000000.tsv", "part-000002.tsv"]


def test_resume_keeps_what_is_there(job: Job) -> None:
    finished(job, 0, 2)
    with OutputFolder.opened(job.output) as folder:
        parts = folder.begin(manifest(job), resume=True)
    assert [parts.summary(number) is not None for number in range(3)] == [True, False, True]


def test_resume_of_something_else(job: Job) -> None:
    finished(job, 0)
    with (
        pytest.raises(OutputError, match="was begun differently: shards was 3, and is now 4; say the same"),
        OutputFolder.opened(job.output) as folder,
    ):
        folder.begin(manifest(job, 4), resume=True)


def test_overwrite_takes_the_parts_alone(job: Job) -> None:
    finished(job, 0, 2)
    (job.output / "notes.txt").write_text("mine")
    (job.output / "part-000003.tsv").write_text("mine too")
    with OutputFolder.opened(job.output) as folder:
        parts = folder.begin(manifest(job, layout="csv"), overwrite=True)
        assert parts.path(0).name == "part-000000.csv"
        assert list((job.output / HIDDEN).glob("part-*")) == []
    assert names(job.output) == ["notes.txt", "part-000003.tsv"]


def test_no_part_takes_the_place_of_a_file_that_is_not_listed(job: Job) -> None:
    finished(job, 0)
    (job.output / "part-000003.tsv").write_text("mine")
    with (
        pytest.raises(OutputError, match=r"part-000003.tsv is there, but in no manifest; move it away"),
        OutputFolder.opened(job.output) as folder,
    ):
        folder.begin(manifest(job, 4), overwrite=True)
    assert (job.output / "part-000003.tsv").read_text() == "mine"


def test_what_killed_writers_left_goes(job: Job) -> None:
    finished(job, 0)
    left = [job.output / ".part-000001.tsv-x1", job.output / HIDDEN / ".part-000001.json-y2"]
    for path in left:
        path.write_text("half a")
    (job.output / ".hidden").write_text("mine")
    with OutputFolder.opened(job.output) as folder:
        folder.begin(manifest(job), resume=True)
    assert not any(path.exists() for path in left)
    assert names(job.output) == [".hidden", "part-000000.tsv"]


def test_a_folder_with_the_name_of_what_a_killed_writer_left(job: Job) -> None:
    finished(job, 0)
    (job.output / ".part-000001.tsv-x1").mkdir()
    with (
        pytest.raises(OutputError, match=r"cannot remove .*\.part-000001\.tsv-x1: .*; move it away, or name"),
        OutputFolder.opened(job.output) as folder,
    ):
        folder.begin(manifest(job), resume=True)


def test_a_folder_that_cannot_be_made(tmp_path: Path, job: Job) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(
            OutputError, match=r"cannot write into .*file/out: Not a directory; name another folder"
        ),
        OutputFolder.opened(tmp_path / "file" / "out"),
    ):
        pass


def test_a_second_run_is_refused(folder: OutputFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_PATIENCE", 0.0)
    with (
        pytest.raises(OutputError, match=r"another run \(process \d+\) is at work in .*out; wait until"),
        OutputFolder.opened(folder.path),
    ):
        pass


def test_a_lock_on_a_full_disk(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock.os, "pwrite", full)
    with (
        pytest.raises(OutputError, match=r"cannot write .*lock: No space left on device; free some space"),
        OutputFolder.opened(job.output),
    ):
        pass


HOLDER = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, 2); print(flush=True); input()"


def test_the_lock_of_a_run_that_ends_soon_is_waited_for(job: Job) -> None:
    finished(job)
    line = [sys.executable, "-c", HOLDER, str(job.output / HIDDEN / "lock")]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        with OutputFolder.opened(job.output) as folder:
            folder.begin(manifest(job))


def test_a_file_system_without_locks(
    job: Job, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    finished(job, 0)
    assert "cannot lock" in ours(recwarn)[0]
