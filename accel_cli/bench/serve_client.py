"""Connections of our own: they check answers, and make load where `wrk` is not installed.

Callbacks instead of coroutines, since whatever the client computes, the server on the same cores cannot.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, TypeVar

import numpy as np

from accel_cli.bench.serve_requests import Request, Response, parsed
from accel_cli.errors import AccelError

T = TypeVar("T")
NAME = "accel"
LOST = Response(0)
PATIENCE = 60.0  # seconds for an answer, once no more is asked
_PAUSE = 0.02  # seconds after a 429


@dataclass(frozen=True)
class Load:
    """What a load found: answered requests, the seconds they took, and latencies in seconds."""

    requests: int
    seconds: float
    p50: float
    p99: float


class Connection(asyncio.Protocol):
    """A connection with one request under way at most."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._data = bytearray()
        self._heard: Callable[[Response], None] | None = None

    @classmethod
    async def open(cls, port: int) -> Connection:
        """A connection to a port of this machine."""
        _, made = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return made

    @property
    def usable(self) -> bool:
        """Whether the server has not closed it."""
        return not self._transport.is_closing()

    def send(self, payload: bytes, heard: Callable[[Response], None]) -> None:
        """Send a request; `heard` is called once, with the answer or with LOST."""
        self._heard = heard
        self._transport.write(payload)

    async def ask(self, payload: bytes) -> Response:
        """Send a request and wait for its answer."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.send(payload, lambda response: None if future.done() else future.set_result(response))
        return await asyncio.wait_for(future, PATIENCE)

    def close(self) -> None:
        """Leave, whatever is under way."""
        self._heard = None
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:  # uvloop's own class, which is no asyncio.Transport
        """It stands."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of an answer, or all."""
        self._data += data
        if (response := parsed(self._data)) is not None:
            self._data.clear()
            self._tell(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """No answer comes any more."""
        self._tell(LOST)

    def _tell(self, response: Response) -> None:
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(response)


class ClosedLoop:
    """As many requests under way as there are connections: each answer calls for the next request.

    `heard` gets every answer that comes in time, with its request. Who gets a 429 waits a little: to ask
    again at once would only take the server's time.
    """

    def __init__(self, requests: Iterator[Request], heard: Callable[[Request, Response], object]) -> None:
        self._requests, self._heard = requests, heard
        self._end = 0.0
        self.latencies = array("d")

    async def run(self, port: int, connections: int, seconds: float) -> float:
        """Load the server; the seconds that it took."""
        opened = [await Connection.open(port) for _ in range(connections)]
        begin = time.perf_counter()
        self._end = begin + seconds
        for connection in opened:
            self._next(connection)
        await asyncio.sleep(seconds)
        for connection in opened:
            connection.close()
        return time.perf_counter() - begin

    def _next(self, connection: Connection) -> None:
        if not connection.usable:
            return
        request, begin = next(self._requests), time.perf_counter()

        def heard(response: Response) -> None:
            now = time.perf_counter()
            if now < self._end:
                self.latencies.append(now - begin)
                self._heard(request, response)
                if response.status == 429:
                    asyncio.get_running_loop().call_later(_PAUSE, self._next, connection)
                else:
                    self._next(connection)

        connection.send(request.payload, heard)


def load(port: int, requests: Sequence[Request], connections: int, seconds: float) -> Load:
    """Load the server from this process. Raises AccelError if a request is not answered well."""

    refused: list[Response] = []

    def heard(request: Request, response: Response) -> None:
        if response.status != 200:
            refused.append(response)

    loop = ClosedLoop(cycle(requests), heard)
    took = run(loop.run(port, connections, seconds))
    if refused:
        first = refused[0]
        raise unanswered(len(refused), f"; the first with status {first.status}: {first.body[:200]!r}")
    if not loop.latencies:
        raise AccelError(f"no answer came within {seconds:g} s; load the server for longer with --seconds")
    p50, p99 = percentiles(loop.latencies)
    return Load(len(loop.latencies), took, p50, p99)


async def settle(port: int, payload: bytes) -> None:
    """Wait until what a load has left behind is done: until something later is not refused with 429.

    Raises AccelError if that takes too long.
    """

    async def answered() -> None:
        connection = await Connection.open(port)
        while (await connection.ask(payload)).status == 429:
            await asyncio.sleep(_PAUSE)
        connection.close()

    try:
        await asyncio.wait_for(answered(), PATIENCE)
    except asyncio.TimeoutError:
        busy = f"not timed, because the server was still busy {PATIENCE:.0f} s after a load"
        raise AccelError(busy) from None


def percentiles(latencies: array[float]) -> tuple[float, float]:
    """The middle latency, and that which one of a hundred exceeds."""
    p50, p99 = np.percentile(np.array(latencies), (50, 99)).tolist()
    return p50, p99


def unanswered(count: int, first: str = "") -> AccelError:
    """Why a load is no figure."""
    return AccelError(f"not timed, because {count} requests were refused or lost under load{first}")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run something on uvloop, which the extra `serve` brings."""
    import uvloop

    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
