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

    `inside` is the percent of the workers' time in which they read text, classified it and wrote rows; the
    rest is waiting for parts to be synced and for the next shard.
    """

    seconds: float
    sentences: int
    inside: float


class Clock(Tally):
    """The tally of a run by so many workers, from the moment that it is made."""

    def __init__(self, workers: int, now: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self._workers, self._now = workers, now
        self._begin = now()
        self._seen: list[tuple[float, int, int]] = []  # when, the shard's number, its sentences so far
        self._done: list[tuple[float, int]] = []
        self.start = 0.0  # seconds until the last worker was ready

    def loaded(self, plan: str) -> None:
        """A worker is ready."""
        super().loaded(plan)
        self.start = self._now() - self._begin

    def progress(self, shard: Shard, sentences: int, read: int) -> None:
        """How far a shard is."""
        super().progress(shard, sentences, read)
        self._seen.append((self._now(), shard.number, sentences))

    def finished(self, shard: Shard, summary: Summary, ended: float | None = None) -> None:
        """A part has its name. Ray tells of it late, so it says when that was."""
        super().finished(shard, summary, ended)
        when = self._now() if ended is None else ended
        self._seen.append((when, shard.number, summary.sentences))
        self._done.append((when, shard.number))

    def steady(self) -> Steady | None:
        """From the end of the last worker's first shard until there is no shard for a worker; None if never.

        Shards are handed out in order, so that the first ones are those of all workers.
        """
        begin = max(when for when, number in self._done if number < self._workers)
        end = sorted(self._done)[-self._workers][0]
        if end <= begin:
            return None
        numbers = [number for when, number in self._done if begin < when <= end]
        inside = sum(self.written[number].seconds for number in numbers) / (end - begin) / self._workers
        return Steady(end - begin, self._until(end) - self._until(begin), 100 * inside)

    def _until(self, end: float) -> int:
        """The sentences of all shards at a time."""
        return sum({number: sentences for when, number, sentences in self._seen if when <= end}.values())
