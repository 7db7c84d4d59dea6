"""The thread that owns the engine: it loads, warms up, and then takes batch after batch from the queue."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from accel_cli.batches import Predictions, TextBatch
from accel_cli.classifier import SHORT, Classifier
from accel_cli.cuda.errors import DeviceFull, DeviceLost
from accel_cli.engines.base import Plan, TextTicket
from accel_cli.serve.jobs import Job, JobQueue, Room, Share
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal

_BYTES_A_TOKEN = 8  # of usual text, its blanks included


class Listener(Protocol):
    """Who hears from the worker, on the worker's thread."""

    def ready(self, plan: Plan) -> None:
        """The model is loaded and has classified something."""

    def done(self, jobs: Sequence[Job]) -> None:
        """These jobs are complete, or have failed."""

    def failed(self, error: Exception) -> None:
        """The engine is gone, and with it the thread."""

    def trouble(self, error: Exception) -> None:
        """A batch failed; the engine lives on."""


@dataclass(frozen=True)
class _UnderWay:
    """A batch that the engine computes."""

    shares: list[Share]
    ticket: TextTicket
    tokenization: float
    begin: float


class Worker:
    """Runs the engine on a thread of its own, which alone talks to it."""

    def __init__(
        self,
        load: Callable[[], Classifier],
        queue: JobQueue,
        listener: Listener,
        metrics: Metrics,
        max_batch_tokens: int,
    ) -> None:
        self._load = load
        self._queue = queue
        self._listener = listener
        self._metrics = metrics
        self._tokens = max_batch_tokens
        self._under_way: deque[_UnderWay] = deque()
        self._thread = threading.Thread(target=self._run, name="accel-engine", daemon=True)

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, but not for ever."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            classifier = self._load()
            warm_up(classifier)
            gc.freeze()  # what is loaded stays: the collector need not look at it again and again
        except Exception as error:
            self._listener.failed(error)
            return
        self._listener.ready(classifier.plan)
        try:
            self._serve(classifier)
        except Exception as error:  # the device is lost, or this module has a fault
            self._give_up()
            self._listener.failed(error)
        else:
            classifier.close()

    def _serve(self, classifier: Classifier) -> None:
        """Batch after batch, until the queue is closed. On a GPU the next one starts while one runs."""
        plan = classifier.plan
        room = Room(plan.batch, self._tokens * _BYTES_A_TOKEN)
        ahead = 0 if plan.device == "cpu" else plan.streams - 1
        while (shares := self._queue.take(room, wait=not self._under_way)) is not None or self._under_way:
            if shares:
                self._attempt(classifier, shares)
            if self._under_way and (not shares or len(self._under_way) > ahead):
                self._complete(classifier, self._under_way.popleft())

    def _attempt(self, classifier: Classifier, shares: list[Share]) -> None:
        """Start a batch; if that fails, settle it."""
        try:
            self._under_way.append(self._start(classifier, shares))
        except DeviceLost:
            self._listener.done(_failed((share.job for share in shares), lost=True))
            raise
        except Exception as error:
            self._settle(classifier, shares, error)

    def _complete(self, classifier: Classifier, batch: _UnderWay) -> None:
        """Wait for a batch and hand its jobs over; if it failed, settle it."""
        try:
            self._finish(batch)
        except DeviceLost:
            self._listener.done(_failed((share.job for share in batch.shares), lost=True))
            raise
        except Exception as error:
            self._settle(classifier, batch.shares, error)

    def _start(self, classifier: Classifier, shares: list[Share]) -> _UnderWay:
        """Read texts and hand them to the engine, within the token budget where the host counts tokens."""
        begin = time.perf_counter()
        for share in shares:
            if not share.start:
                share.job.times.queue = begin - share.job.created
        text = TextBatch(b"".join([share.text for share in shares]), sum(map(len, shares)))
        read = classifier.read(text)
        done = time.perf_counter()
        return _UnderWay(shares, classifier.submit(read, self._tokens), done - begin, done)

    def _finish(self, batch: _UnderWay) -> None:
        """Give every job its rows."""
        found = batch.ticket.result()
        inference = time.perf_counter() - batch.begin
        starts = np.cumsum([0, *map(len, batch.shares)])[:-1]
        truncated, tokens = (
            np.add.reduceat(values, starts, dtype=np.int64).tolist()
            for values in (found.truncated, found.lengths)
        )
        self._metrics.batch(len(found), sum(tokens), batch.tokenization, inference)
        for share, start, cut, words in zip(batch.shares, starts.tolist(), truncated, tokens, strict=True):
            rows, job = slice(start, start + len(share)), share.job
            job.parts.append(Predictions(found.logits[rows], found.scores[rows], found.labels[rows]))
            job.truncated += cut
            job.tokens += words
            job.times.tokenization += batch.tokenization
            job.times.inference += inference
        self._listener.done([share.job for share in batch.shares if share.last])

    def _settle(self, classifier: Classifier, shares: list[Share], error: Exception) -> None:
        """A batch failed, but not for good: try each job alone, so that only the guilty one fails."""
        self._listener.trouble(error)
        if isinstance(error, DeviceFull):
            self._metrics.oom_retries.inc()
        if len(shares) == 1:
            self._listener.done(_failed([shares[0].job], lost=False))
            return
        left = deque(shares)
        try:
            while left:
                share = left.popleft()
                if not share.job.over:
                    self._attempt(classifier, [share])
                    if self._under_way and self._under_way[-1].shares == [share]:
                        self._complete(classifier, self._under_way.pop())
        except DeviceLost:
            self._listener.done(_failed((share.job for share in left), lost=True))
            raise

    def _give_up(self) -> None:
        """Fail whatever is under way or waits."""
        shares = [share for batch in self._under_way for share in batch.shares]
        jobs = [share.job for share in shares] + self._queue.clear()
        self._listener.done(_failed(jobs, lost=True))


def warm_up(classifier: Classifier) -> None:
    """Classify what makes the engine compile, allocate and touch all that it will need."""
    plan, tokenizer = classifier.plan, classifier.tokenizer
    longest, blanks = "word " * tokenizer.max_tokens, " " * SHORT
    # on a device that finds words each slot takes a full batch twice: as it is, and as a graph
    full = plan.batch * (2 * plan.streams if classifier.engine.text_reader(tokenizer) else 1)
    for texts in (["a word"], [longest], [longest + blanks], ["a word"] * full):
        classifier.predict(texts)


def _failed(jobs: Iterable[Job], *, lost: bool) -> list[Job]:
    """The jobs, marked as failed. What exactly went wrong stands in the log, not in the answer."""
    reason = "the device failed; the server stops" if lost else "the engine failed on this request"
    marked = list(jobs)
    for job in marked:
        job.failure = Refusal(500, "backend", reason)
    return marked
