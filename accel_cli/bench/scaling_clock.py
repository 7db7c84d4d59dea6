"""A tally that remembers when: the rate of workers apart from what starting and ending them takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from accel_cli.pipeline import Summary
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally

LEAST = 4  # shards of each worker, of which the first and the last are no steady state


@dataclass(frozen=True)
class Steady:
    """The time in which every worker had a shard, its first one done: seconds, and the sentences in them.

    Of a shard that was under way at its begin or end, the part that lies in it counts. `inside` is the
    percent of the workers' time in which they read text, classified it and wrote rows; the rest is waiting
    for parts to be synced and for the next shard.
    """

    seconds: float
    sentences: int
    inside: float


@dataclass(frozen=True)
class _Work:
    """What a worker did to a shard, from a time to another."""

    begin: float
    end: float
    sentences: int

    def within(self, begin: float, end: float) -> float:
        """The seconds of it that lie between two times."""
        return max(0.0, min(self.end, end) - max(self.begin, begin))


class Clock(Tally):
    """The tally of a run by so many workers, from the moment that it is made."""

    def __init__(self, workers: int, now: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self._workers, self._now = workers, now
        self._begin = now()
        self._done: dict[int | str, list[_Work]] = {}  # by worker
        self.start = 0.0  # seconds until the last worker was ready

    def loaded(self, plan: str) -> None:
        """A worker is ready."""
        super().loaded(plan)
        self.start = self._now() - self._begin

    def finished(
        self, shard: Shard, summary: Summary, worker: int | str = 0, ended: float | None = None
    ) -> None:
        """A part has its name. Ray tells of it late, so it says when that was."""
        super().finished(shard, summary, worker, ended)
        end = self._now() if ended is None else ended
        self._done.setdefault(worker, []).append(_Work(end - summary.seconds, end, summary.sentences))

    def steady(self) -> Steady | None:
        """From when all workers have done a shard until one has done its last; None if that is never."""
        if len(self._done) < self._workers:
            return None
        ends = [[work.end for work in done] for done in self._done.values()]
        begin, end = max(map(min, ends)), min(map(max, ends))
        if end <= begin:
            return None
        works = [work for done in self._done.values() for work in done if work.within(begin, end)]
        inside = sum(work.within(begin, end) for work in works) / (end - begin) / self._workers
        shares = (work.within(begin, end) / (work.end - work.begin) * work.sentences for work in works)
        return Steady(end - begin, round(sum(shares)), 100 * inside)
