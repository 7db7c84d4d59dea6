"""What an actor of a Ray cluster says of the shards that it is given, without Ray."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ray_work import actor, asked, job_in, shards_in

from accel_cli import __version__
from accel_cli.errors import AccelWarning, RecordError
from accel_cli.model.config import Config
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.part import HIDDEN
from accel_cli.shards.ray_actor import Failed, Unfit, Written
from accel_cli.shards.shard import Shard
from accel_cli.shards.tries import Tries
from accel_cli.shards.worker import Draft, ShardWorker


class Exited(BaseException):
    """os._exit was called, which nothing heeds."""


@pytest.fixture
def job(tiny: Config, tmp_path: Path) -> Job:
    return job_in(tiny, tmp_path)


@pytest.fixture
def shards(job: Job, tmp_path: Path) -> list[Shard]:
    return shards_in(job, tmp_path)


def test_a_part_is_written(job: Job, shards: list[Shard]) -> None:
    found = asked(actor(job), shards[0])
    assert isinstance(found, Written)
    assert (found.summary.sentences, found.read) == (10, 120)
    assert found.plan is not None
    assert len((job.output / "part-000000.tsv").read_bytes().splitlines()) == 10


def test_the_plan_is_told_with_the_first_part(job: Job, shards: list[Shard]) -> None:
    one, begin = actor(job), time.perf_counter()
    first, second = asked(one, shards[0]), asked(one, shards[2])
    assert isinstance(first, Written)
    assert isinstance(second, Written)
    assert first.plan is not None
    assert second.plan is None
    assert first.ended is not None
    assert second.ended is not None
    assert first.worker == second.worker == f"{socket.gethostname()}:{os.getpid()}"
    assert begin < first.ended < second.ended < time.perf_counter()


def test_a_shard_is_classified_while_the_part_before_it_is_synced(
    job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, write, begun = Draft.finish, ShardWorker.write, threading.Event()
    monkeypatch.setattr(Draft, "finish", lambda draft: begun.wait(30) and finish(draft))

    def second(self: ShardWorker, shard: Shard, progress: Any) -> Draft:
        if shard.number == 2:
            begun.set()
        return write(self, shard, progress)

    monkeypatch.setattr(ShardWorker, "write", second)
    one = actor(job)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(partial(asked, one), (shards[0], shards[2])))
    assert [type(each) for each in found] == [Written, Written]
    assert len(list(job.output.glob("part-*"))) == 2


def test_an_actor_that_is_ready_has_its_model_and_tells_its_warnings(
    job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that loading kills is not ready, so that the pool does not begin such ones for ever."""
    loads: list[str] = []
    begin = ShardWorker.__init__

    def load(self: ShardWorker, *how: Any) -> None:
        loads.append("load")
        warnings.warn("a slow disk", AccelWarning, stacklevel=1)
        begin(self, *how)

    monkeypatch.setattr(ShardWorker, "__init__", load)
    one = actor(job)
    one.ready()
    assert loads == ["load"]
    first, second = asked(one, shards[0]), asked(one, shards[2])
    assert isinstance(first, Written)
    assert isinstance(second, Written)
    assert (first.warned, second.warned, loads) == (("a slow disk",), (), ["load"])


def test_a_part_that_is_there_is_not_written_again(job: Job, shards: list[Shard]) -> None:
    """A node was lost with the answer, but the part is whole."""
    first = asked(actor(job), shards[0])
    assert isinstance(first, Written)
    part = job.output / "part-000000.tsv"
    before = part.stat()
    assert asked(actor(job), shards[0]) == Written(first.summary, worker=first.worker)
    assert part.stat().st_ino == before.st_ino


def test_a_bad_record_costs_its_shard_alone(job: Job, shards: list[Shard]) -> None:
    one = actor(job)
    found = asked(one, shards[1])
    assert isinstance(found, Failed)
    assert (found.hopeless, found.error) == (True, RecordError), "it is the same for all workers"
    assert "UTF-8" in found.reason
    assert isinstance(asked(one, shards[2]), Written)


def test_a_part_that_cannot_be_written_is_no_fault_of_its_shard(
    job: Job, shards: list[Shard], tmp_path: Path
) -> None:
    """When it is begun, when it is finished, and when not even a try can be counted."""
    one, here = actor(job), f"on {socket.gethostname()}: "
    (job.output / "part-000000.tsv").mkdir()
    (job.output / HIDDEN / "part-000002.json").mkdir()
    remedy = "is a folder; move it away, then go on with --resume"
    assert asked(one, shards[0]) == Unfit(f"{here}{job.output}/part-000000.tsv {remedy}")
    assert asked(one, shards[2]) == Unfit(f"{here}{job.output}/{HIDDEN}/part-000002.json {remedy}")
    assert not list(job.output.glob(".part-*"))
    job.output.rename(tmp_path / "away")
    reason = (
        f"cannot write {job.output}/{HIDDEN}: No such file or directory; mend that, then go on with --resume"
    )
    assert asked(one, shards[1]) == Unfit(here + reason)


def test_what_was_not_foreseen_ends_the_process_before_its_next_shard(
    job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(self: ShardWorker, shard: Shard, progress: object) -> None:
        raise RuntimeError("an illegal address")

    def leave(code: int) -> None:
        raise Exited(code)

    monkeypatch.setattr(ShardWorker, "write", write)
    monkeypatch.setattr(os, "_exit", leave)
    one = actor(job)
    assert asked(one, shards[0]) == Failed("RuntimeError: an illegal address")
    with pytest.raises(Exited):
        asked(one, shards[2])
    assert Tries(job.output, shards[2].number).begin(), "the next shard has no try of its own"


def test_a_shard_whose_worker_died_twice_is_not_tried_again(job: Job, shards: list[Shard]) -> None:
    for _ in range(2):
        assert Tries(job.output, 0).begin()
    assert asked(actor(job), shards[0]) == Failed("its worker died", hopeless=True)


def test_the_last_try_says_why_it_failed(
    job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(self: ShardWorker, shard: Shard, progress: object) -> None:
        raise RuntimeError("an illegal address")

    monkeypatch.setattr(ShardWorker, "write", write)
    assert Tries(job.output, 1).begin(), "as by a worker that died"
    assert asked(actor(job), shards[1]) == Failed("RuntimeError: an illegal address", hopeless=True)


def test_tries_are_forgotten_once_a_part_is_there(job: Job, shards: list[Shard]) -> None:
    Tries(job.output, 0).begin()
    assert isinstance(asked(actor(job), shards[0]), Written)
    assert not list(job.output.rglob("*tries*"))


def test_a_part_being_synced_has_no_share_in_what_kills_its_actor(
    job: Job, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(draft: Draft) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(Draft, "finish", killed)
        for _ in range(2):
            with pytest.raises(SystemExit):
                asked(actor(job), shards[0])
    assert isinstance(asked(actor(job), shards[0]), Written)


def test_tries_go_with_the_run(job: Job, shards: list[Shard]) -> None:
    Tries(job.output, 0).begin()
    with OutputFolder.opened(job.output):
        pass
    assert not list(job.output.rglob("*tries*"))


def test_a_folder_that_is_not_shared(job: Job, shards: list[Shard], tmp_path: Path) -> None:
    found = asked(actor(replace(job, output=tmp_path / "elsewhere")), shards[0])
    assert isinstance(found, Unfit)
    assert f"{tmp_path}/elsewhere is not there; name an output folder that all nodes" in found.reason
    assert socket.gethostname() in found.reason


def test_another_version(job: Job, shards: list[Shard]) -> None:
    found = asked(actor(job, "9.9"), shards[0])
    assert isinstance(found, Unfit)
    assert f"accel {__version__} is installed, not the 9.9 of where the run started" in found.reason


def test_a_model_that_does_not_load(job: Job, shards: list[Shard], tmp_path: Path) -> None:
    model = replace(job.config.model, vocabulary=tmp_path / "gone.txt")
    found = asked(actor(replace(job, config=replace(job.config, model=model))), shards[0])
    assert isinstance(found, Unfit)
    assert "gone.txt" in found.reason
