"""Twice as much as a server can do, for as long as one likes: every answer is checked against its text."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from accel_cli.bench.measure import short
from accel_cli.bench.serve_client import PATIENCE, ClosedLoop, Connection, percentiles
from accel_cli.bench.serve_process import Server
from accel_cli.bench.serve_requests import V2_BINARY, Answers, Request, Requests, Response

SINGLES = 15  # requests of one sentence for each large one
TIMES = 2.0  # the capacity, that is asked for
_CONNECTIONS = (
    768  # more than the texts that a CPU's server admits, fewer than connections that any one takes
)
_TICK = 0.002  # seconds between looks at what is due
_MEMORY_SAMPLES = 60  # in the report


@dataclass
class Counts:
    """What became of the requests, each counted once. An `unsent` one found no idle connection."""

    right: int = 0
    refused: int = 0
    wrong: int = 0
    failed: int = 0
    unsent: int = 0
    sentences: int = 0  # of the right ones

    @property
    def sent(self) -> int:
        """All but those that could not be sent."""
        return self.right + self.refused + self.wrong + self.failed


@dataclass
class Soak:
    """How a server stood an overload. Rates are requests a second; memory in bytes, as it was sampled.

    `capacity` is what it answered, of the same requests, with no more of them at once than it admits.
    """

    seconds: float
    large: int
    capacity: float = 0.0
    capacity_sentences: float = 0.0
    counts: Counts = field(default_factory=Counts)
    p50: float | None = None
    p99: float | None = None
    recovery: float | None = None
    memory: list[int] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every request got its own right answer or a 429, and the server came back."""
        counts = self.counts
        return not counts.wrong and not counts.failed and counts.right > 0 and self.recovery is not None

    def as_json(self) -> dict[str, Any]:
        """As it is published."""
        memory, step = self.memory, -(-len(self.memory) // _MEMORY_SAMPLES) or 1
        known = (_mib(memory[0]), _mib(memory[-1]), _mib(max(memory))) if memory else (None, None, None)
        return {
            "seconds": self.seconds,
            "load": f"accel, {TIMES:g} x the capacity whatever is answered, {_CONNECTIONS} connections",
            "mix": f"{SINGLES} requests of 1 sentence (TEI JSON), then one of {self.large:,} (v2 binary)",
            "capacity_requests_per_s": short(self.capacity),
            "capacity_sentences_per_s": short(self.capacity_sentences),
            "offered_requests_per_s": short(TIMES * self.capacity),
            "sent": self.counts.sent,
            **vars(self.counts),
            "right_sentences_per_s": short(self.counts.sentences / self.seconds),
            "p50_ms": None if self.p50 is None else short(1e3 * self.p50),
            "p99_ms": None if self.p99 is None else short(1e3 * self.p99),
            "recovery_ms": None if self.recovery is None else short(1e3 * self.recovery),
            **dict(zip(("start_mib", "end_mib", "most_mib"), known, strict=True)),
            "memory_mib": [_mib(value) for value in memory[::step]],
        }


class Soaking:
    """One soak under way."""

    def __init__(
        self, server: Server, requests: Requests, answers: Answers, tell: Callable[[str], None]
    ) -> None:
        self._server, self._requests, self._answers, self._tell = server, requests, answers, tell
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._latencies = array("d")
        self._counts = Counts()

    async def run(self, count: int, large: int, admitted: int, warm: float, seconds: float) -> Soak:
        """Find the capacity within `warm` seconds, then ask for twice that.

        There are `count` sentences; a large request has `large`, and the server admits `admitted`.
        """
        found = Soak(seconds, large)
        mix = _mix(self._requests, count, large)
        # on average as many as are admitted; of what is refused beyond, every size has its share
        connections = (SINGLES + 1) * max(1, min(16, admitted // large))
        took = await ClosedLoop(mix, self._heard).run(self._server.port, connections, warm)
        found.capacity, found.capacity_sentences = self._counts.right / took, self._counts.sentences / took
        self._tell(f"capacity of the mix: {found.capacity:,.0f} requests/s; asking for {TIMES:g} x that")
        found.counts.wrong, found.counts.failed = self._counts.wrong, self._counts.failed  # they count, too
        self._counts = found.counts
        await self._overload(mix, TIMES * found.capacity, seconds, found.memory)
        found.recovery = await self._recovery()
        self._sample(found.memory)
        if not found.counts.refused and not found.counts.unsent:
            self._tell("nothing was refused, so this was no overload; soak for longer, on a quiet machine")
        if self._latencies:
            found.p50, found.p99 = percentiles(self._latencies)
        return found

    async def _overload(self, mix: Iterator[Request], rate: float, seconds: float, memory: list[int]) -> None:
        """Send what is due, whatever is answered; then wait for what is under way."""
        port = self._server.port
        self._idle += [await Connection.open(port) for _ in range(_CONNECTIONS)]
        begin, passed, due = time.perf_counter(), 0.0, 0
        while passed < seconds:
            passed = min(time.perf_counter() - begin, seconds)
            while due < int(passed * rate):
                due += 1
                self._send(next(mix))
            if passed >= len(memory) * min(0.5, seconds / _MEMORY_SAMPLES):
                self._sample(memory)
                await self._replace_lost()
            await asyncio.sleep(_TICK)

    def _send(self, request: Request) -> None:
        """Over the connection that has been idle for longest, so that none is for long."""
        while self._idle and not self._idle[0].usable:
            self._idle.popleft()
        if not self._idle:
            self._counts.unsent += 1
            return
        connection = self._idle.popleft()
        self._busy.add(connection)
        begin = time.perf_counter()

        def heard(response: Response) -> None:
            self._busy.discard(connection)
            if self._heard(request, response):
                self._latencies.append(time.perf_counter() - begin)
            self._idle.append(connection)

        connection.send(request.payload, heard)

    async def _replace_lost(self) -> None:
        """Make up for connections that the server has closed."""
        for _ in range(_CONNECTIONS - len(self._idle) - len(self._busy)):
            with suppress(OSError):
                self._idle.append(await Connection.open(self._server.port))

    def _heard(self, request: Request, response: Response) -> bool:
        """Count an answer; whether it is right."""
        counts = self._counts
        if response.status == 429:
            counts.refused += 1
        elif response.status != 200:
            counts.failed += 1
            if counts.failed == 1:
                self._tell(f"failed: status {response.status}, {response.body[:200]!r}")
        elif self._answers.right(request, response):
            counts.right += 1
            counts.sentences += len(request)
            return True
        else:
            counts.wrong += 1
            if counts.wrong == 1:
                self._tell(f"wrong: sentences from {request.begin} on were answered {response.body[:200]!r}")
        return False

    async def _recovery(self) -> float | None:
        """Seconds from the end of the load to the first good answer to something new; None if none came."""
        request, begin = self._requests.single(0, raw=True), time.perf_counter()
        found = None
        while found is None and time.perf_counter() < begin + PATIENCE:
            with suppress(OSError, asyncio.TimeoutError):
                connection = await Connection.open(self._server.port)
                if self._answers.right(request, await connection.ask(request.payload)):
                    found = time.perf_counter() - begin
                connection.close()
            await asyncio.sleep(_TICK)
        while self._busy and time.perf_counter() < begin + PATIENCE:
            await asyncio.sleep(_TICK)
        self._counts.failed += len(self._busy)
        for connection in (*self._busy, *self._idle):
            connection.close()
        return found

    def _sample(self, memory: list[int]) -> None:
        if (bytes_ := self._server.memory()) is not None:
            memory.append(bytes_)


def _mib(value: int) -> float:
    return short(value / 2**20)


def _mix(requests: Requests, count: int, large: int) -> Iterator[Request]:
    """Single sentences with a large request now and then, for ever. Logits are asked for."""
    singles = cycle([requests.single(place, raw=True) for place in range(count)])
    several = cycle(requests.cut(V2_BINARY, large, raw=True))
    while True:
        for _ in range(SINGLES):
            yield next(singles)
        yield next(several)
