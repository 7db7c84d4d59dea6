"""Running shards in worker processes, one for each device named; a worker that fails is replaced."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from typing import Any

from accel_cli.engines.planner import cores
from accel_cli.errors import AccelError, DeviceError
from accel_cli.shards.child import Failed, Finished, Loaded, Progressed, Written
from accel_cli.shards.job import Job
from accel_cli.shards.lock import Lock
from accel_cli.shards.process import WorkerProcess
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally
from accel_cli.spawn import PATIENCE, UnforeseenError, Warned

_MAY_HEAL = (DeviceError, UnforeseenError)  # what another worker may do better
_HOPELESS = 3  # workers of one place that failed in a row: it is not the shards


class WorkersFailed(AccelError):
    """No worker can be kept going."""


def run_processes(
    job: Job, shards: Sequence[Shard], devices: Sequence[str], tally: Tally, lock: Lock
) -> None:
    """Run shards, handed out in order, by one worker process for each of `devices`, which may repeat.

    A worker gets its next shard while the part of the one before is being synced.

    A shard whose worker dies or fails is tried once more after the rest, by another worker; if that
    fails too, the tally has it. What a retry cannot mend is raised: InputError, OutputError,
    WeightsError; so is WorkersFailed when workers fail whatever they do. Workers hold `lock` too.
    """
    pool = _Pool(_shared(job, devices), devices, tally, lock)
    try:
        pool.run(shards)
    except BaseException:
        pool.end(kill=True)
        raise
    pool.end(kill=False)


def _shared(job: Job, devices: Sequence[str]) -> list[Job]:
    """The job for each worker: on a CPU they share the cores, unless the number of threads was said."""
    if job.config.plan.streams or devices[0] != "cpu":
        return [job] * len(devices)
    shares = [max(1, (cores() + index) // len(devices)) for index in range(len(devices))]
    plans = [job.config.plan.overridden(streams=share) for share in shares]
    return [replace(job, config=replace(job.config, plan=plan)) for plan in plans]


@dataclass(frozen=True)
class _Task:
    """A shard to be done, and where it failed before."""

    shard: Shard
    failed_at: _Place | None = None


@dataclass(eq=False)
class _Place:
    """Where one worker at a time runs: it classifies one shard and syncs the part of another."""

    job: Job
    device: str
    worker: WorkerProcess | None = None
    under_way: _Task | None = None
    syncing: _Task | None = None
    failures: int = 0  # of its workers, in a row

    @property
    def hopeless(self) -> bool:
        """Whether no worker is started here any more."""
        return self.failures >= _HOPELESS


class _Pool:
    """Places, the workers there, and the shards that are left."""

    def __init__(self, jobs: Sequence[Job], devices: Sequence[str], tally: Tally, lock: Lock) -> None:
        self._places = [_Place(job, device) for job, device in zip(jobs, devices, strict=True)]
        self._tally = tally
        self._lock = lock
        self._left: deque[_Task] = deque()
        self._retries: list[_Task] = []
        self._at_work: dict[Any, _Place] = {}  # by connection
        self._last_reason = ""

    def run(self, shards: Sequence[Shard]) -> None:
        """Hand shards out until all are written or have failed for good."""
        self._left.extend(map(_Task, shards))
        self._hand_out()
        while self._at_work:
            for connection in wait(list(self._at_work)):
                self._hear(self._at_work[connection])
            self._hand_out()
        if self._left or self._retries:
            raise WorkersFailed(f"one worker after the other fails; the last one: {self._last_reason}")

    def end(self, *, kill: bool) -> None:
        """End all workers."""
        workers = [place.worker for place in self._places if place.worker]
        for worker in workers:
            worker.end(kill=kill)
        until = time.monotonic() + PATIENCE
        for worker in workers:
            worker.wait(until)

    def _hand_out(self) -> None:
        """Give a shard to every worker that has none."""
        for place in self._places:
            if not place.under_way and not place.hopeless and (task := self._next(place)):
                place.under_way = task
                place.worker = place.worker or WorkerProcess(place.job, place.device, self._lock)
                place.worker.give(task.shard)
                self._at_work[place.worker.connection] = place

    def _next(self, place: _Place) -> _Task | None:
        """A shard for a place: a new one, else one that failed elsewhere, if there is an elsewhere."""
        if self._left:
            return self._left.popleft()
        alone = all(other is place or other.hopeless for other in self._places)
        for task in self._retries:
            if alone or task.failed_at is not place:
                self._retries.remove(task)
                return task
        return None

    def _hear(self, place: _Place) -> None:
        """Take in the next message of a worker."""
        worker = place.worker
        assert worker is not None  # it is at work
        message = worker.hear()
        if isinstance(message, Loaded):
            self._tally.loaded(message.plan)
        elif isinstance(message, Progressed) and place.under_way:
            self._tally.progress(place.under_way.shard, message.sentences, message.read)
        elif isinstance(message, Warned):
            message.show()
        elif isinstance(message, Written):
            place.syncing, place.under_way = place.under_way, None
        elif isinstance(message, Finished) and place.syncing:
            self._tally.finished(place.syncing.shard, message.summary, self._places.index(place))
            place.syncing, place.failures = None, 0
            if place.under_way is None:
                del self._at_work[worker.connection]
        elif isinstance(message, Failed):
            if not isinstance(message.error, _MAY_HEAL):
                raise message.error
            self._lost(place, worker, str(message.error), syncing=message.syncing)
        else:
            self._lost(place, worker, worker.death())

    def _lost(self, place: _Place, worker: WorkerProcess, reason: str, *, syncing: bool = False) -> None:
        """A worker failed, and with it the shards that it had: one it failed at, the other is as new."""
        tasks = [task for task in (place.under_way, place.syncing) if task]
        if syncing:
            tasks.reverse()
        del self._at_work[worker.connection]
        worker.end(kill=True)
        worker.wait(time.monotonic() + PATIENCE)
        place.worker = place.under_way = place.syncing = None
        place.failures += 1
        self._last_reason = reason
        failed, *others = tasks
        for task in others:
            self._tally.progress(task.shard, 0, 0)
            self._left.appendleft(task)
        if failed.failed_at is not None:
            self._tally.failed(failed.shard, reason)
            return
        self._tally.retried(failed.shard, reason)
        self._retries.append(_Task(failed.shard, place))
