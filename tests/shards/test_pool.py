"""Who gets which shard, and what happens when workers fail; the workers are actors in this process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from conftest import ours

from accel_cli.errors import AccelError, AccelWarning, DeviceError, InputError
from accel_cli.pipeline import Summary
from accel_cli.shards import processes
from accel_cli.shards.child import Failed, Finished, Loaded, Progressed, Written
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.process import WorkerProcess
from accel_cli.shards.processes import WorkersFailed, run_processes
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally
from accel_cli.spawn import UnforeseenError, Warned

SHARDS = [Shard(number, f"{number}.txt") for number in range(6)]
DIES = None  # instead of a message

Say = Callable[[str, int], Sequence[Any]]  # what the worker of a device does about a shard


class Stage:
    """What actors do, and what they were seen doing."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.started: list[tuple[str, int]] = []  # device, threads asked for
        self.given: list[tuple[str, int]] = []
        self.open = 0
        self.error: AccelError | None = None

    def actor(self, job: Job, device: str, lock: Any) -> WorkerProcess:
        stage = self
        stage.started.append((device, job.config.plan.streams))
        stage.open += 1

        class Actor(WorkerProcess):
            def __init__(self) -> None:
                self.connection, self._theirs = multiprocessing.Pipe()

            def give(self, shard: Shard) -> None:
                stage.given.append((device, shard.number))
                for message in stage.say(device, shard.number):
                    if message is DIES:
                        self._theirs.close()
                    else:
                        self._theirs.send(message)

            def death(self) -> str:
                return "its worker died"

            def end(self, *, kill: bool) -> None:
                stage.open -= 1

            def wait(self, until: float) -> None: ...

        return Actor()


Play = Callable[..., tuple[Stage, Tally]]


@pytest.fixture
def play(job: Job, folder: OutputFolder, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Run shards with actors that say what `say` says; gives the stage, on which nobody is left."""

    def call(
        say: Say, devices: Sequence[str], error: type[AccelError] | None = None, job: Job = job
    ) -> tuple[Stage, Tally]:
        stage, tally = Stage(say), Tally()
        monkeypatch.setattr(processes, "WorkerProcess", stage.actor)
        if error is None:
            run_processes(job, SHARDS, devices, tally, folder.lock)
        else:
            with pytest.raises(error) as caught:
                run_processes(job, SHARDS, devices, tally, folder.lock)
            stage.error = caught.value
        assert stage.open == 0
        return stage, tally

    return call


def well(device: str, number: int) -> Sequence[Any]:
    return [Loaded(device), Progressed(1, 9), Written(), Finished(Summary(number))]


def test_shards_go_out_in_order_one_at_a_time(play: Play) -> None:
    stage, tally = play(well, ["cuda:0", "cuda:1"])
    assert [number for _, number in stage.given] == [0, 1, 2, 3, 4, 5]
    assert {device for device, _ in stage.given} == {"cuda:0", "cuda:1"}
    assert [device for device, _ in stage.started] == ["cuda:0", "cuda:1"]
    assert tally.written == {number: Summary(number) for number in range(6)}


def test_two_workers_on_one_device(play: Play) -> None:
    stage, tally = play(well, ["cuda:0", "cuda:0"])
    assert [device for device, _ in stage.started] == ["cuda:0", "cuda:0"]
    assert len(tally.written) == 6


@pytest.mark.parametrize("failure", [DIES, Failed(DeviceError("lost")), Failed(UnforeseenError("bug"))])
@pytest.mark.filterwarnings("ignore::accel_cli.errors.AccelWarning")
def test_a_shard_is_tried_once_more_elsewhere_after_the_rest(play: Play, failure: Any) -> None:
    first = True

    def say(device: str, number: int) -> Sequence[Any]:
        nonlocal first
        if number == 1 and first:
            first = False
            return [failure]
        return well(device, number)

    stage, tally = play(say, ["cuda:0", "cuda:1"])
    numbers = [number for _, number in stage.given]
    assert numbers[-1] == 1
    assert sorted(numbers) == [0, 1, 1, 2, 3, 4, 5]
    assert stage.given[1][0] != stage.given[-1][0]
    assert len(stage.started) == 3
    assert sorted(tally.written) == [0, 1, 2, 3, 4, 5]
    assert tally.failures == []


def test_a_retry_is_told(play: Play) -> None:
    seen: list[int] = []

    def say(device: str, number: int) -> Sequence[Any]:
        seen.append(number)
        return [DIES] if seen.count(number) < 2 and number == 1 else well(device, number)

    with pytest.warns(AccelWarning, match=r"1.txt failed \(its worker died\); it is tried once more"):
        play(say, ["cpu", "cpu"])


@pytest.mark.filterwarnings("ignore::accel_cli.errors.AccelWarning")
def test_a_shard_that_always_fails_is_named_and_the_rest_is_done(play: Play) -> None:
    _, tally = play(lambda device, number: [DIES] if number == 2 else well(device, number), ["cpu", "cpu"])
    assert [str(failure) for failure in tally.failures] == ["2.txt (its worker died)"]
    assert sorted(tally.written) == [0, 1, 3, 4, 5]


@pytest.mark.filterwarnings("ignore::accel_cli.errors.AccelWarning")
def test_a_device_that_always_fails_is_given_up(play: Play) -> None:
    stage, tally = play(
        lambda device, number: [DIES] if device == "cuda:0" else well(device, number), ["cuda:0", "cuda:1"]
    )
    assert sorted(tally.written) == [0, 1, 2, 3, 4, 5]
    assert 1 <= [device for device, _ in stage.started].count("cuda:0") <= 3


@pytest.mark.filterwarnings("ignore::accel_cli.errors.AccelWarning")
def test_workers_that_all_fail(play: Play) -> None:
    stage, tally = play(lambda device, number: [DIES], ["cpu", "cpu"], WorkersFailed)
    assert str(stage.error) == "one worker after the other fails; the last one: its worker died"
    assert len(stage.started) <= 6
    assert tally.written == {}


def late(device: str, number: int) -> Sequence[Any]:
    """A part is synced while the next shard is classified."""
    before = [Finished(Summary(number - 1))] if number else [Loaded(device)]
    return [*before, Written(), *([Finished(Summary(number))] if number == SHARDS[-1].number else [])]


def test_the_next_shard_comes_while_a_part_is_synced(play: Play) -> None:
    stage, tally = play(late, ["cuda:0"])
    assert [number for _, number in stage.given] == [0, 1, 2, 3, 4, 5]
    assert tally.written == {number: Summary(number) for number in range(6)}


@pytest.mark.parametrize("syncing", [False, True])
def test_of_two_shards_of_a_lost_worker_one_is_to_blame(play: Play, syncing: bool) -> None:
    """The one that was classified, if it is not said that it was the other; that one is as new."""
    lost = [Failed(UnforeseenError("bug"), syncing=True) if syncing else DIES]
    seen: set[int] = set()

    def say(device: str, number: int) -> Sequence[Any]:
        first = number not in seen
        seen.add(number)
        if number == 2 and first:
            return [Loaded(device), Written()]  # its part is never finished
        return lost if number == 3 and first else well(device, number)

    with pytest.warns(AccelWarning) as told:
        stage, tally = play(say, ["cuda:0"])
    assert [warning.partition(" ")[0] for warning in ours(told)] == [f"{2 if syncing else 3}.txt"]
    assert [number for _, number in stage.given] == (
        [0, 1, 2, 3, 3, 4, 5, 2] if syncing else [0, 1, 2, 3, 2, 4, 5, 3]
    )
    assert sorted(tally.written) == [0, 1, 2, 3, 4, 5]
    assert tally.failures == []


def test_a_bad_record_ends_the_run(play: Play) -> None:
    def say(device: str, number: int) -> Sequence[Any]:
        return [Failed(InputError("a.txt:3: bad"))] if number == 2 else well(device, number)

    stage, tally = play(say, ["cpu", "cpu"], InputError)
    assert str(stage.error) == "a.txt:3: bad"
    assert 2 not in tally.written


def test_warnings_of_workers_are_given_on(play: Play) -> None:
    def say(device: str, number: int) -> Sequence[Any]:
        return [Warned("no cache", own=True), Warned("old", own=False), *well(device, number)]

    with pytest.warns(AccelWarning, match="no cache"), pytest.warns(UserWarning, match="old"):
        play(say, ["cpu", "cpu"])


def test_workers_on_a_cpu_share_the_cores(play: Play, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 8)
    assert [threads for _, threads in play(well, ["cpu"] * 3)[0].started] == [2, 3, 3]
    assert {threads for _, threads in play(well, ["cuda:0", "cuda:1"])[0].started} == {0}
    asked = replace(job, config=replace(job.config, plan=job.config.plan.overridden(streams=5)))
    assert [threads for _, threads in play(well, ["cpu"] * 2, job=asked)[0].started] == [5, 5]
    monkeypatch.setattr(processes, "cores", lambda: 2)
    assert [threads for _, threads in play(well, ["cpu"] * 3)[0].started] == [1, 1, 1]
