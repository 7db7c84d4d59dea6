"""A worker writes parts that are whole, again and again the same, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_cli.errors import OutputError, RecordError
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.part import HIDDEN, Parts
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.shards.worker import ShardWorker, opened
from accel_cli.text.readers import Source


@pytest.fixture
def shards(lines: Path) -> list[Shard]:
    return shards_of([Source(str(lines))], 400)


@pytest.fixture
def worker(job: Job, folder: OutputFolder) -> Iterator[ShardWorker]:
    with ShardWorker(job, "cpu") as made:
        yield made


def names(folder: OutputFolder) -> list[str]:
    return sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*part-*"))


def test_parts_of_shards_in_any_order(worker: ShardWorker, shards: list[Shard], folder: OutputFolder) -> None:
    seen: list[tuple[int, int]] = []
    for shard in reversed(shards):
        worker.write(shard, lambda sentences, read: seen.append((sentences, read))).finish()
    rows = b"".join(path.read_bytes() for path in sorted(folder.path.glob("part-*"))).splitlines()
    assert [row.split(b" ")[0] for row in rows] == [b"%d" % number for number in range(100)]
    assert [len(names(folder)), len(shards)] == [6, 3]
    assert seen[-1] == (41, 400)  # the first shard: line 41 begins at byte 400


def test_again_changes_nothing(worker: ShardWorker, shards: list[Shard], folder: OutputFolder) -> None:
    first = worker.write(shards[1]).finish()
    before = (folder.path / "part-000001.tsv").read_bytes()
    assert replace(worker.write(shards[1]).finish(), seconds=first.seconds) == first
    assert (folder.path / "part-000001.tsv").read_bytes() == before
    assert names(folder) == [f"{HIDDEN}/part-000001.json", "part-000001.tsv"]
    kept = Parts(folder.path, "tsv").summary(1)
    assert kept is not None
    assert replace(kept, seconds=first.seconds) == first


def test_a_draft_has_its_name_when_it_is_finished_and_is_gone_when_it_is_not(
    worker: ShardWorker, shards: list[Shard], folder: OutputFolder
) -> None:
    drafts = [worker.write(shard) for shard in shards[:2]]
    assert not any(name.startswith("part-") for name in names(folder))
    assert drafts.pop().finish().sentences == len((folder.path / "part-000001.tsv").read_bytes().splitlines())
    drafts.clear()
    assert names(folder) == [f"{HIDDEN}/part-000001.json", "part-000001.tsv"]


def test_a_bad_record_leaves_nothing(job: Job, folder: OutputFolder, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "good"}\n{\n')
    [shard] = shards_of([Source(str(tmp_path / "in.jsonl"))], 400)
    with ShardWorker(job, "cpu") as worker, pytest.raises(RecordError, match=r"in.jsonl:2: not valid JSON"):
        worker.write(shard).finish()
    assert names(folder) == []
    with ShardWorker(replace(job, on_error="replace"), "cpu") as worker:
        assert worker.write(shard).finish().failed == 1


def test_a_full_disk_leaves_nothing(
    worker: ShardWorker, shards: list[Shard], folder: OutputFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("accel_cli.shards.worker.write_all", full)
    with pytest.raises(OutputError, match=r"part-000000.tsv: No space left on device; free some space, then"):
        worker.write(shards[0]).finish()
    assert names(folder) == []


def test_a_folder_that_goes_is_an_output_that_cannot_be_written(
    worker: ShardWorker, shards: list[Shard], folder: OutputFolder
) -> None:
    draft = worker.write(shards[0])
    folder.path.rename(f"{folder.path}.away")
    with pytest.raises(
        OutputError, match=r"cannot write .*part-000000.tsv: No such file .*; mend that, then"
    ):
        draft.finish()
    with pytest.raises(
        OutputError, match=r"cannot write .*part-000001.tsv: No such file .*; mend that, then"
    ):
        worker.write(shards[1])


def test_a_file_that_cannot_be_closed(tmp_path: Path) -> None:
    part = tmp_path / "part"
    with pytest.raises(OutputError, match="part: Bad file descriptor"), opened(f"{part}-1", part) as file:
        os.close(file.fileno())
    with pytest.raises(OutputError, match="part: No such file"), opened(f"{tmp_path}/gone/1", part):
        pass


def test_a_link_in_the_place_of_a_part_is_not_followed(
    worker: ShardWorker, shards: list[Shard], folder: OutputFolder, tmp_path: Path
) -> None:
    (tmp_path / "mine.tsv").write_text("mine")
    (folder.path / "part-000000.tsv").symlink_to(tmp_path / "mine.tsv")
    worker.write(shards[0]).finish()
    assert (tmp_path / "mine.tsv").read_text() == "mine"
    assert not (folder.path / "part-000000.tsv").is_symlink()


@pytest.mark.parametrize("layout", ["csv", "jsonl"])
def test_each_part_is_a_file_of_its_layout(
    job: Job, folder: OutputFolder, shards: list[Shard], layout: str
) -> None:
    with ShardWorker(replace(job, layout=layout), "cpu") as worker:
        worker.write(shards[1]).finish()
    [first, *_] = (folder.path / f"part-000001.{layout}").read_text().splitlines()
    assert first.startswith({"csv": "text,label", "jsonl": '{"text": "41 a film", "label": '}[layout])
