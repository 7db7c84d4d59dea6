"""From the queue to the engine and back: which batch is next, and whose its rows are."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from accel_cli.batches import Predictions, TextBatch
from accel_cli.serve.engine_messages import Computed, Failed, Ready
from accel_cli.serve.jobs import Job, JobQueue, Room, Share
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal

_BYTES_A_TOKEN = 8  # of usual text, its blanks included


class Dispatcher:
    """Keeps the engine busy: whatever waits when it can take a batch becomes the next one.

    One batch more than it computes at once is with the engine, so that it need not wait for us. Everything
    happens on the event loop. If a batch is not full, its first job waits `delay` seconds for others to join.
    """

    def __init__(
        self, compute: Callable[[TextBatch, int], None], max_batch_tokens: int, delay: float, metrics: Metrics
    ) -> None:
        self._compute = compute
        self._tokens = max_batch_tokens
        self._delay = delay
        self._metrics = metrics
        self._queue = JobQueue()
        self._room = Room(0, 0)
        self._depth = 0  # batches that the engine computes at once
        self._under_way: deque[list[Share]] = deque()
        self._again: deque[Share] = deque()  # of batches that failed
        self._retrying = False  # the batch under way is one of these
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The texts that wait, those that are with the engine already included."""
        waiting = [*islice(self._under_way, self._depth, None), self._again]
        return len(self._queue) + sum(len(share) for shares in waiting for share in shares)

    @property
    def busy(self) -> bool:
        """Whether the engine computes something."""
        return bool(self._under_way)

    def open(self, ready: Ready) -> None:
        """The engine takes batches from now on."""
        self._room = Room(ready.plan.batch, self._tokens * _BYTES_A_TOKEN)
        self._depth = ready.depth

    def put(self, jobs: Sequence[Job]) -> None:
        """Have jobs computed, each in its turn."""
        self._queue.put(jobs)
        self._fill()

    def computed(self, message: Computed) -> None:
        """The oldest batch is there: every job of it gets its rows."""
        shares, found = self._take_off(), message.found
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
            if not share.start:
                job.times.queue = message.begin - job.created
            job.times.tokenization += message.tokenization
            job.times.inference += message.inference
            job.resolve()

    def failed(self, message: Failed) -> None:
        """The oldest batch failed: try each job of it alone, so that only the guilty one fails."""
        shares = self._take_off()
        if message.full:
            self._metrics.oom_retries.inc()
        if len(shares) == 1:
            shares[0].job.fail(Refusal(500, "backend", "the engine failed on this request"))
        else:
            self._again.extend(shares)
        self._fill()

    def give_up(self) -> None:
        """The engine is gone: fail whatever is under way or waits."""
        self._depth = 0
        self._stop_timer()
        shares = [share for batch in self._under_way for share in batch] + list(self._again)
        for job in [*(share.job for share in shares), *self._queue.clear()]:
            job.fail(Refusal(500, "backend", "the device failed; the server stops"))
        self._under_way.clear()
        self._again.clear()

    def _take_off(self) -> list[Share]:
        self._retrying = False
        return self._under_way.popleft()

    def _fill(self) -> None:
        """Give the engine what it can take now."""
        while len(self._under_way) < self._most() and not self._others_may_join():
            if not (shares := self._next()):
                return
            self._send(shares)

    def _most(self) -> int:
        """Batches that may be with the engine: what is tried again is alone there, with all the memory."""
        if not self._depth:
            return 0
        return 1 if self._again or self._retrying else self._depth + 1

    def _others_may_join(self) -> bool:
        """Whether the next batch is to wait; then a timer runs for it."""
        self._stop_timer()
        if not self._delay or self._again or len(self._queue) >= self._room.texts:
            return False
        if (first := self._queue.first()) is None:
            return False
        left = first.created + self._delay - time.perf_counter()
        if left > 0:
            self._timer = asyncio.get_running_loop().call_later(left, self._fill)
        return left > 0

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> list[Share]:
        while self._again:
            share = self._again.popleft()
            if not share.job.over:
                self._retrying = True
                return [share]
        return self._queue.take(self._room)

    def _send(self, shares: list[Share]) -> None:
        self._under_way.append(shares)
        texts = TextBatch(b"".join([share.text for share in shares]), sum(map(len, shares)))
        self._compute(texts, self._tokens)
