"""Requests that wait for the engine, in order, and how the next batch is taken from them."""

from __future__ import annotations

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
    """The texts of a request and what is known of them. Whoever waits for the answer has `future`."""

    texts: TextBatch
    future: Future[Found]
    created: float = field(default_factory=time.perf_counter)
    taken: int = 0
    parts: dict[int, Predictions] = field(default_factory=dict)  # by their first text
    truncated: int = 0
    tokens: int = 0
    times: Times = field(default_factory=Times)
    _ends: npt.NDArray[np.int64] | None = None

    @property
    def over(self) -> bool:
        """Whether computing on makes no sense: it has failed, or nobody waits any more."""
        return self.future.done()

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Where each line of the text ends, behind its newline. Only a job that is cut needs to know."""
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self.texts.text, np.uint8) == ord("\n")) + 1
        return self._ends

    def begin(self, line: int) -> int:
        """Where a line begins."""
        return int(self.ends[line - 1]) if line else 0

    def resolve(self) -> None:
        """Hand the answer over if it is whole and somebody waits for it."""
        if self.over or sum(map(len, self.parts.values())) < len(self.texts):
            return
        parts = [self.parts[start] for start in sorted(self.parts)]
        self.future.set_result(Found(parts[0].concatenate(parts), self.truncated, self.tokens, self.times))

    def fail(self, error: Exception) -> None:
        """Hand an error over if somebody waits."""
        if not self.over:
            self.future.set_exception(error)


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
    def whole(self) -> bool:
        """Whether they are all of it."""
        return self.start == 0 and self.stop == len(self.job.texts)


@dataclass(frozen=True)
class Room:
    """What a batch may hold. Its tokens are not known yet, so its bytes stand for them."""

    texts: int
    bytes: int


class JobQueue:
    """First come, first served."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        """The texts that wait."""
        return sum(len(job.texts) - job.taken for job in self._jobs if not job.over)

    def put(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait."""
        self._jobs.extend(jobs)

    def clear(self) -> list[Job]:
        """Take out all jobs."""
        jobs = list(self._jobs)
        self._jobs.clear()
        return jobs

    def first(self) -> Job | None:
        """The job that waits longest, of those that somebody waits for."""
        while self._jobs and self._jobs[0].over:
            self._jobs.popleft()
        return self._jobs[0] if self._jobs else None

    def take(self, room: Room) -> list[Share]:
        """Whatever waits, within the room, as a batch; a job that does not fit leaves its rest in front."""
        shares: list[Share] = []
        texts, size = room.texts, room.bytes
        while texts > 0 and size > 0 and (job := self.first()):
            share = _first_part(job, texts, size)
            job.taken = share.stop
            texts -= len(share)
            size -= len(share.text)
            shares.append(share)
            if share.stop == len(job.texts):
                self._jobs.popleft()
        return shares


def _first_part(job: Job, texts: int, size: int) -> Share:
    """What of a job's remaining texts fits; at least one does."""
    start, stop = job.taken, min(job.taken + texts, len(job.texts))
    if len(job.texts.text) > size:
        full = int(np.searchsorted(job.ends, job.begin(start) + size)) + 1  # with the text that fills it
        stop = min(stop, full)
    return Share(job, start, stop)
