"""Shards over workers, event by event: what slow workers and dying ones add to the closed form."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from random import Random


@dataclass(frozen=True)
class Work:
    """What is simulated; times are seconds.

    Every shard takes `shard_seconds` on a sound worker, `slow_factor` times as long on a slow one. A worker
    begins after `load_seconds`, works `between_deaths` on average before it dies (exponentially
    distributed), and is back `restart_seconds` and `load_seconds` later. A shard whose worker dies is handed
    out again after all new ones, until it was tried `attempts` times.
    """

    shards: int
    workers: int
    shard_seconds: float
    load_seconds: float = 0.0
    slow_workers: float = 0.0  # a share of all
    slow_factor: float = 1.0
    between_deaths: float = inf
    restart_seconds: float = 0.0
    attempts: int = 2
    seed: int = 0

    @property
    def sound(self) -> bool:
        """Whether no worker dies."""
        return self.between_deaths == inf


@dataclass(frozen=True)
class Outcome:
    """How it went. `seconds` until the last shard was done; `tail_seconds` of them after the last new one
    was handed out; `lost_seconds` of work in shards whose worker died."""

    seconds: float
    tail_seconds: float
    deaths: int
    retried: int
    given_up: int
    lost_seconds: float


class _Cluster:
    """The state between two events."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._random = Random(work.seed)
        slow = round(work.slow_workers * work.workers)
        pace = work.shard_seconds
        self._pace = [pace * work.slow_factor] * slow + [pace] * (work.workers - slow)
        self._random.shuffle(self._pace)
        # when, which worker, the shard that ends then (-1: it is ready to begin), whether by its death
        self._events = [(work.load_seconds, worker, -1, False) for worker in range(work.workers)]
        heapify(self._events)
        self._again: deque[int] = deque()
        self._tries: dict[int, int] = {}
        self._next = self._deaths = self._retried = self._given_up = 0
        self._lost = self._last_new = self._end = 0.0

    def run(self) -> Outcome:
        """Handle events until no shard is left anywhere."""
        idle: list[int] = []
        left = self._work.shards
        while left:
            now, worker, shard, died = heappop(self._events)
            if died:
                left -= self._bury(now, worker, shard)
            else:
                if shard >= 0:
                    left -= 1
                    self._end = now
                idle.append(worker)
            while idle and (self._again or self._next < self._work.shards):
                self._start(now, idle.pop())
        tail = self._end - self._last_new
        return Outcome(self._end, tail, self._deaths, self._retried, self._given_up, self._lost)

    def _start(self, now: float, worker: int) -> None:
        """Hand out a shard: a new one, else one whose worker died."""
        if self._next < self._work.shards:
            shard, self._next, self._last_new = self._next, self._next + 1, now
        else:
            shard = self._again.popleft()
        pace, life = self._pace[worker], self._life()
        if life < pace:
            self._lost += life
        heappush(self._events, (now + min(pace, life), worker, shard, life < pace))

    def _bury(self, now: float, worker: int, shard: int) -> bool:
        """A worker died over a shard, and will be back; whether the shard is given up."""
        self._deaths += 1
        ready = now + self._work.restart_seconds + self._work.load_seconds
        heappush(self._events, (ready, worker, -1, False))
        tries = self._tries[shard] = self._tries.get(shard, 0) + 1
        if tries >= self._work.attempts:
            self._given_up += 1
            self._end = now
            return True
        self._retried += 1
        self._again.append(shard)
        return False

    def _life(self) -> float:
        """Seconds that a worker still works: an exponential distribution does not know how long it did."""
        return inf if self._work.sound else self._random.expovariate(1 / self._work.between_deaths)


def simulate(work: Work) -> Outcome:
    """Run the work once; the same seed gives the same outcome."""
    return _Cluster(work).run()
