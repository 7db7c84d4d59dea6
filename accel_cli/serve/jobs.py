"""Requests that wait for the engine, in order, and how the next batch is taken from them."""

from __future__ import annotations

import threading
import time
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Predictions, TextBatch
from accel_cli.serve.questions import Found, Times


@dataclass(eq=False, slots=True)
class Job:
    """The texts of a request and what is known of them. Only the engine's thread changes it.

    `future` belongs to the event loop; that it is cancelled means that nobody waits for it any more.
    """

    texts: TextBatch
    future: Future[Found]
    created: float = field(default_factory=time.perf_counter)
    taken: int = 0
    parts: list[Predictions] = field(default_factory=list)
    truncated: int = 0
    tokens: int = 0
    times: Times = field(default_factory=Times)
    failure: Exception | None = None
    _ends: npt.NDArray[np.int64] | None = None

    @property
    def over(self) -> bool:
        """Whether computing on makes no sense."""
        return self.failure is not None or self.future.cancelled()

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where each line of the text ends, behind its newline. Only a job that is cut needs to know."""
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self.texts.text, np.uint8) == ord("\n")) + 1
        return self._ends

    def begin(self, line: int) -> int:
        """Where a line begins."""
        return int(self.ends[line - 1]) if line else 0


@dataclass(slots=True)
class Share:
    """Texts of one job that are in a batch."""

    job: Job
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def text(self) -> bytes:
        """These lines of the job's text."""
        whole, job = self.job.texts.text, self.job
        return whole if self.whole else whole[job.begin(self.start) : job.begin(self.stop)]

    @property
    def last(self) -> bool:
        """Whether the job is complete with them."""
        return self.stop == len(self.job.texts)

    @property
    def whole(self) -> bool:
        """Whether they are all of it."""
        return self.start == 0 and self.last


@dataclass(frozen=True)
class Room:
    """What a batch may hold. Its tokens are not known yet, so its bytes stand for them."""

    texts: int
    bytes: int


class JobQueue:
    """First come, first served. The event loop puts jobs in, the engine's thread takes batches out."""

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        """The texts that wait."""
        with self._changed:
            return self._waiting()

    def put(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait."""
        with self._changed:
            self._jobs.extend(jobs)
            self._changed.notify()

    def close(self) -> None:
        """End the waiting: what is in the queue can still be taken, and then nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self, room: Room, *, wait: bool) -> list[Share] | None:
        """The next batch: whatever waits, within the room. None when the queue is closed and empty.

        Without `wait`, an empty list when nothing is there.
        """
        with self._changed:
            while wait and not self._jobs and not self._closed:
                self._changed.wait()
            if not self._jobs:
                return None if self._closed else []
            self._gather(room)
            return self._fill(room)

    def clear(self) -> list[Job]:
        """Take out all jobs."""
        with self._changed:
            jobs = list(self._jobs)
            self._jobs.clear()
            return jobs

    def _gather(self, room: Room) -> None:
        """Give others the time to join that the delay allows."""
        end = time.perf_counter() + self._delay
        while self._delay and not self._closed and self._waiting() < room.texts:
            left = end - time.perf_counter()
            if left <= 0:
                return
            self._changed.wait(left)

    def _waiting(self) -> int:
        return sum(len(job.texts) - job.taken for job in self._jobs)

    def _fill(self, room: Room) -> list[Share]:
        """Shares from the front; a job that does not fit leaves its rest in front."""
        shares: list[Share] = []
        texts, size = room.texts, room.bytes
        while self._jobs and texts > 0 and size > 0:
            job = self._jobs[0]
            if job.over:
                self._jobs.popleft()
                continue
            share = _first_part(job, texts, size)
            job.taken = share.stop
            texts -= len(share)
            size -= len(share.text)
            shares.append(share)
            if share.last:
                self._jobs.popleft()
        return shares


def _first_part(job: Job, texts: int, size: int) -> Share:
    """What of a job's remaining texts fits; at least one does."""
    start, stop = job.taken, min(job.taken + texts, len(job.texts))
    if len(job.texts.text) > size:
        full = int(np.searchsorted(job.ends, job.begin(start) + size)) + 1  # with the text that fills it
        stop = min(stop, full)
    return Share(job, start, stop)
