"""A server's life: listen, await the model, serve, drain, leave. The signals are ours, not uvicorn's."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import uvicorn
import uvloop

from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config
from accel_cli.serve.batcher import Batcher
from accel_cli.serve.connection import bounded
from accel_cli.serve.door import Door
from accel_cli.serve.engine_link import EngineLink
from accel_cli.serve.limits import Limits
from accel_cli.serve.logs import Forward, Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.routes import Routes
from accel_cli.serve.shared import Shared
from accel_cli.serve.status import DRAINING, Status
from accel_cli.spawn import UnforeseenError

_BACKLOG = 2048


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int


@dataclass(frozen=True)
class Settings:
    """What a server is started with. `device` is cpu or cuda."""

    config: Config
    device: str
    engine: EngineLink
    limits: Limits
    log: Log
    token: str | None = None


def listen(address: Address) -> socket.socket:
    """A socket that clients can connect to from now on. Raises UsageError."""
    try:
        family, _, _, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(place[:2], family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot listen on {address.host or 'no host'} port {address.port}: {reason}; choose another"
            " --host or --port, or stop what listens there"
        ) from error


def serve(settings: Settings, listener: socket.socket) -> None:
    """Serve until a signal asks to stop; raises what the engine failed of, as an AccelError."""
    uvloop.new_event_loop().run_until_complete(_serve(settings, listener))


async def _serve(settings: Settings, listener: socket.socket) -> None:
    """Put the parts together, and see them through."""
    limits, log = settings.limits, settings.log
    status, metrics = Status(), Metrics(settings.config.name)
    metrics.watch_health(lambda: status.healthy)
    batcher = Batcher(settings.engine, limits, status, metrics, log)
    shared = Shared(settings.config, settings.device, limits, status, batcher, metrics, log, settings.token)
    door = Door(Routes(shared), metrics, log, settings.token)
    server = _Server(door, limits, status, metrics, log)

    def stop(failed: asyncio.Future[None]) -> None:
        """The engine is gone: say so for a while if there was one, then leave."""
        grace = limits.failure_grace if batcher.plan else 0.0
        asyncio.get_running_loop().call_later(grace, server.stop)

    batcher.failure.add_done_callback(stop)
    await batcher.connect()
    with _forwarded(log):
        await server.serve(sockets=[listener])
    batcher.end()
    if batcher.failure.done():
        try:
            batcher.failure.result()
        except UnforeseenError as error:
            raise AccelError(f"the engine failed: {error}; --debug shows where") from error
    log.event("info", "stopped")


class _Server(uvicorn.Server):
    """uvicorn, its signals replaced: the first one drains, the second one ends the process at once."""

    def __init__(self, door: Door, limits: Limits, status: Status, metrics: Metrics, log: Log) -> None:
        self._status = status
        self._log = log
        super().__init__(
            uvicorn.Config(
                door,
                http=bounded(limits, metrics.rejected),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=limits.idle_timeout,  # type: ignore[arg-type]
                timeout_graceful_shutdown=limits.drain_timeout,  # type: ignore[arg-type]
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, now that signals are handled."""
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            self._log.event("info", "listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")

    def stop(self) -> None:
        """Stop as after a signal."""
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in our own way while the server runs."""
        before = {
            number: signal.signal(number, self._arrived)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + number)
        self._status.move(DRAINING)
        self.stop()  # first: who reads of it may send the second signal at once
        self._log.event("info", "draining", signal=signal.Signals(number).name)


@contextmanager
def _forwarded(log: Log) -> Iterator[None]:
    """What uvicorn and asyncio log goes into our log."""
    handler = Forward(log)
    names = ("uvicorn.error", "asyncio")
    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
