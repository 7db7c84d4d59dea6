"""Who is admitted to the engine, who hears of an answer, and what the engine says of itself."""

from __future__ import annotations

import asyncio
import gc

from accel_cli.batches import TextBatch
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.serve.connection import ClientLeft, Connection
from accel_cli.serve.dispatcher import Dispatcher
from accel_cli.serve.engine_link import EngineLink
from accel_cli.serve.engine_messages import Computed, Failed, Gone, Message, Ready
from accel_cli.serve.jobs import Job
from accel_cli.serve.limits import Limits
from accel_cli.serve.logs import Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.questions import Found
from accel_cli.serve.refusals import overloaded
from accel_cli.serve.status import FAILED, READY, Status
from accel_cli.spawn import Warned


class Batcher:
    """Admits requests and waits for their answers. Everything happens on the event loop, so nothing here
    needs a lock. `failure` is set when the engine is gone.
    """

    def __init__(
        self, engine: EngineLink, limits: Limits, status: Status, metrics: Metrics, log: Log
    ) -> None:
        self.plan: Plan | None = None
        self._engine = engine
        self._dispatcher = Dispatcher(engine.compute, limits.max_batch_tokens, limits.queue_delay, metrics)
        self._limits = limits
        self._status = status
        self._metrics = metrics
        self._log = log
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.inflight = 0
        self._arrived: list[Job] = []
        metrics.watch_queue(self._dispatcher.__len__, lambda: self.inflight)
        metrics.watch_engine(engine.process)

    async def connect(self) -> None:
        """Hear from the engine, which loads the model."""
        await self._engine.connect(self)

    def end(self) -> None:
        """End the engine; if it is idle, it lets go of its device first."""
        self._engine.end(kill=self.plan is None or self._dispatcher.busy)

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
        arrived, self._arrived = self._arrived, []
        self._dispatcher.put(arrived)

    def heard(self, message: Message) -> None:
        """What the engine says."""
        if isinstance(message, Computed):
            self._dispatcher.computed(message)
        elif isinstance(message, Failed):
            self._log.event("error", "batch_failed", error=message.error)
            self._dispatcher.failed(message)
        elif isinstance(message, Ready):
            self._set_ready(message)
        elif isinstance(message, Warned):
            self._log.event("warning", "engine", message=message.text)
        elif isinstance(message, Gone):
            self._set_failed(message.error)

    def _set_ready(self, ready: Ready) -> None:
        gc.freeze()  # what is loaded stays: the collector need not look at it again and again
        self.plan = ready.plan
        self._dispatcher.open(ready)
        self._metrics.describe(ready.plan)
        self._status.move(READY)
        self._log.event("info", "ready", plan=str(ready.plan))

    def _set_failed(self, error: AccelError) -> None:
        self._status.move(FAILED)
        self._hand_over()
        self._dispatcher.give_up()
        self._log.event("error", "failed", error=f"{type(error).__name__}: {error}")
        self.failure.set_exception(error)
