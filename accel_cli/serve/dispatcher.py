"""From the queue to the engine and back: which batch is next, and whose its rows are."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from accel_cli.batches import Predictions, TextBatch
from accel_cli.engines.base import Plan
from accel_cli.serve.engine_messages import Computed, Failed
from accel_cli.serve.engine_process import depth
from accel_cli.serve.jobs import Job, JobQueue, Room, Share
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal

_BYTES_A_TOKEN = 8  # of usual text, its blanks included


class Dispatcher:
    """Keeps the engine busy: whatever waits when it can take a batch becomes the next one.

    One batch more than it computes at once is with the engine, so that it need not wait for us. Everything
    happens on the event loop. A batch waits `delay` seconds for others to join, if it is not full.
    """

    def __init__(
        self, compute: Callable[[TextBatch], None], max_batch_tokens: int, delay: float, metrics: Metrics
    ) -> None:
        self.queue = JobQueue()
        self._compute = compute
        self._bytes = max_batch_tokens * _BYTES_A_TOKEN
        self._delay = delay
        self._metrics = metrics
        self._most = 0  # batches with the engine, the one that waits there included
        self._room = Room(0, 0)
        self._under_way: deque[list[Share]] = deque()
        self._again: deque[Share] = deque()  # of batches that failed
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The texts that wait, those that are with the engine already included."""
        waiting = [*islice(self._under_way, max(self._most - 1, 0), None), self._again]
        return len(self.queue) + sum(len(share) for shares in waiting for share in shares)

    def open(self, plan: Plan) -> None:
        """The engine takes batches from now on."""
        self._room = Room(plan.batch, self._bytes)
        self._most = depth(plan.device, plan.streams) + 1

    def put(self, jobs: Sequence[Job]) -> None:
        """Have jobs computed, each in its turn."""
        self.queue.put(jobs)
        self._fill()

    def computed(self, message: Computed) -> None:
        """The oldest batch is there: every job of it gets its rows."""
        shares, found = self._under_way.popleft(), message.found
        self._fill()  # first: the engine need not wait until the answers are written
        starts = np.cumsum([0, *map(len, shares)])[:-1]
        truncated, tokens = (
            np.add.reduceat(values, starts, dtype=np.int64).tolist()
            for values in (found.truncated, found.lengths)
        )
        self._metrics.batch(len(found), sum(tokens), message.tokenization, message.inference)
        for share, start, cut, words in zip(shares, starts.tolist(), truncated, tokens, strict=True):
            rows, job = slice(start, start + len(share)), share.job
            job.parts[share.start] = Predictions(found.logits[rows], found.scores[rows], found.labels[rows])
            job.truncated += cut
            job.tokens += words
            job.times.tokenization += message.tokenization
            job.times.inference += message.inference
            job.resolve()

    def failed(self, message: Failed) -> None:
        """The oldest batch failed: try each job of it alone, so that only the guilty one fails."""
        shares = self._under_way.popleft()
        if message.full:
            self._metrics.oom_retries.inc()
        if len(shares) == 1:
            shares[0].job.fail(Refusal(500, "backend", "the engine failed on this request"))
        else:
            self._again.extend(shares)
        self._fill()

    def give_up(self) -> None:
        """The engine is gone: fail whatever is under way or waits."""
        shares = [share for batch in self._under_way for share in batch] + list(self._again)
        for job in [*(share.job for share in shares), *self.queue.clear()]:
            job.fail(Refusal(500, "backend", "the device failed; the server stops"))
        self._under_way.clear()
        self._again.clear()
        self._most = 0

    def _fill(self) -> None:
        """Give the engine what it can take now."""
        while len(self._under_way) < self._most and not self._others_may_join():
            if not (shares := self._next()):
                return
            self._send(shares)

    def _others_may_join(self) -> bool:
        """Whether the next batch is to wait; then a timer runs for it."""
        wait = bool(self._delay) and not self._again and 0 < len(self.queue) < self._room.texts
        if wait and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay, self._waited)
        elif not wait and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return wait

    def _waited(self) -> None:
        self._timer = None
        if shares := self._next():
            self._send(shares)
        self._fill()

    def _next(self) -> list[Share]:
        while self._again:
            share = self._again.popleft()
            if not share.job.over:
                return [share]
        return self.queue.take(self._room)

    def _send(self, shares: list[Share]) -> None:
        now = time.perf_counter()
        for share in shares:
            if not share.start:
                share.job.times.queue = now - share.job.created
        self._under_way.append(shares)
        self._compute(TextBatch(b"".join([share.text for share in shares]), sum(map(len, shares))))
