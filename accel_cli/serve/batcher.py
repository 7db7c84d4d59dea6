"""The event loop's side of the queue: who is admitted, and who hears of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from accel_cli.batches import TextBatch
from accel_cli.engines.base import Plan
from accel_cli.serve.connection import ClientLeft, Connection
from accel_cli.serve.jobs import Job, JobQueue
from accel_cli.serve.limits import Limits
from accel_cli.serve.logs import Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.questions import Found
from accel_cli.serve.refusals import overloaded
from accel_cli.serve.status import FAILED, READY, Status


class Batcher:
    """Admits requests, queues them, and resolves their futures. All but the four calls of the worker
    happens on the event loop, so nothing here needs a lock. `failure` is set when the engine is gone.
    """

    def __init__(
        self,
        limits: Limits,
        status: Status,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self.queue = JobQueue(limits.queue_delay)
        self.plan: Plan | None = None
        self._limits = limits
        self._status = status
        self._metrics = metrics
        self._log = log
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.inflight = 0
        self._arrived: list[Job] = []
        metrics.watch_queue(self.queue.__len__, lambda: self.inflight)

    async def ask(self, texts: TextBatch, connection: Connection) -> Found:
        """What the model says of texts, unless the client leaves meanwhile. Raises Refusal or ClientLeft."""
        if connection.lost:
            raise ClientLeft
        self._admit()
        future: asyncio.Future[Found] = self._loop.create_future()
        self.inflight += len(texts)
        if not self._arrived:  # whoever comes in the same turn of the loop is handed over together
            self._loop.call_soon(self._hand_over)
        self._arrived.append(Job(texts, future))
        connection.waiting = future
        try:
            return await future
        except asyncio.CancelledError:
            if connection.lost:
                raise ClientLeft from None
            raise
        finally:
            connection.waiting = None
            self.inflight -= len(texts)

    def _admit(self) -> None:
        """Refuse what is too much, or comes at the wrong time."""
        if not self._status.ready:
            raise self._status.refusal()
        if self.inflight >= self._limits.max_inflight:
            self._metrics.rejected("overloaded")
            raise overloaded(
                f"{self.inflight} texts are being worked on, and {self._limits.max_inflight} are enough;"
                " try again"
            )

    def _hand_over(self) -> None:
        self.queue.put(self._arrived)
        self._arrived = []

    # The worker's thread calls these.

    def ready(self, plan: Plan) -> None:
        """Requests can be taken from now on."""
        self._later(self._set_ready, plan)

    def done(self, jobs: Sequence[Job]) -> None:
        """Resolve the futures of these jobs, all in one go."""
        if jobs:
            self._later(_resolve, jobs)

    def failed(self, error: Exception) -> None:
        """Nothing can be computed any more."""
        self._later(self._set_failed, error)

    def trouble(self, error: Exception) -> None:
        """Log a batch that failed."""
        self._log.event("error", "batch_failed", error=f"{type(error).__name__}: {error}")

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _set_ready(self, plan: Plan) -> None:
        self.plan = plan
        self._metrics.describe(plan)
        self._status.move(READY)
        self._log.event("info", "ready", plan=str(plan))

    def _set_failed(self, error: Exception) -> None:
        self._status.move(FAILED)
        self._hand_over()
        for job in self.queue.clear():  # those that came after the worker had failed all others
            if not job.future.done():
                job.future.set_exception(self._status.refusal())
        self._log.event("error", "failed", error=f"{type(error).__name__}: {error}")
        self.failure.set_exception(error)


def _resolve(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.failure is not None:
            job.future.set_exception(job.failure)
        else:
            predictions = job.parts[0].concatenate(job.parts)
            job.future.set_result(Found(predictions, job.truncated, job.tokens, job.times))
