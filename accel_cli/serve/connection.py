"""One client's connection: uvicorn's protocol with the bounds that it leaves to a proxy in front.

A header has a size and a time in which it must be whole, a request a time and a rate of overhead, an
answer a time in which it must be read. Whoever waits for an answer can be told that the client left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from accel_cli.serve.limits import Limits

KEY = "accel.connection"  # where a request's scope holds its connection
CYCLE = "accel.cycle"  # and what uvicorn knows of its answer
_HEADER, _BODY, _WHOLE = "header", "body", "whole"  # the stages of a message
_PIPELINED = 64  # requests that may wait on one connection
_LINE = 32  # bytes that a line of a header costs besides its own, as HTTP/2 reckons
_OVERHEAD = 8  # bytes on the wire for each byte of a body: chunks may be small, but not all of them
_SLOW_READER = 30.0  # seconds
_LEAVING = 5.0  # seconds in which a closed connection's last bytes must be read


class ClientLeft(Exception):
    """Nobody is there any more to be answered."""


class Connection(HttpToolsProtocol):
    """A connection with bounds."""

    limits: Limits
    ended: Callable[[str], None]  # hears why a connection is ended

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.waiting: asyncio.Future[Any] | None = None  # cancelled if the client leaves
        self._stage = _HEADER  # of the message that is being read
        self._timed = ""  # the stage that has a deadline, and no other one
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._received = 0  # bytes of the message that is being read
        self._header = 0  # bytes of its header and trailer
        self._refusal: tuple[int, str] | None = None

    @property
    def lost(self) -> bool:
        """Whether nobody is there any more."""
        return self.transport.is_closing()

    @property
    def _idle(self) -> bool:
        """Whether no request is read or answered."""
        return self._deadline is None and (self.cycle is None or self.cycle.response_complete)

    # What arrives

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, if there are not too many."""
        super().connection_made(transport)
        self._expect(_HEADER)
        if len(self.connections) > self.limits.max_connections:
            self._end(429, "connections", "too many connections; close some, or try again")

    def data_received(self, data: bytes) -> None:
        """Parse what came, within the bounds."""
        if self.transport.is_closing():
            return
        self._received += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._stage != _BODY and self._received > self.limits.max_header_bytes:
            self._end(431, "header", "the header is too large")
        elif self._received > self.limits.max_header_bytes + _OVERHEAD * self.limits.max_body_bytes:
            self._end(413, "body", "the request is too large")
        elif self._received and self._idle:  # less than the first line of a request, as a newline
            self._stage = _HEADER
            self._expect(_HEADER)
        elif self._timed != self._stage:  # not sooner: a request that comes in one piece needs no timer
            self._expect(self._stage)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell those who wait for answers."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._expect(_WHOLE)
        for timer in (self._reading, self._leaving):
            if timer is not None:
                timer.cancel()
        if self.waiting is not None:
            self.waiting.cancel()

    # What the parser finds

    def on_message_begin(self) -> None:
        """A request starts."""
        super().on_message_begin()
        self._stage, self._timed, self._header = _HEADER, "", 0
        self.scope[KEY] = self  # type: ignore[literal-required]
        if len(self.pipeline) >= _PIPELINED:
            self._refuse(429, "too many requests at once on one connection")

    def on_url(self, url: bytes) -> None:
        """A piece of the address."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the header, or of the trailer."""
        super().on_header(name, value)
        self._count(len(name) + len(value) + _LINE)

    def on_headers_complete(self) -> None:
        """The request can be answered."""
        self._stage = _BODY
        super().on_headers_complete()
        self.scope[CYCLE] = self.cycle  # type: ignore[literal-required]

    def on_message_complete(self) -> None:
        """The request is whole."""
        super().on_message_complete()
        self._stage, self._received = _WHOLE, 0
        if not self.pipeline:  # its last piece may have paused the reading; who does not read hears of no end
            self.flow.resume_reading()

    def _count(self, size: int) -> None:
        self._header += size
        if self._header > self.limits.max_header_bytes:
            self._refuse(431, "the header is too large")

    def _refuse(self, status: int, message: str) -> None:
        """End the parsing; the parser passes it on as an error of its own."""
        self._refusal = status, message
        raise ValueError(message)

    # What is answered

    async def answer(
        self, cycle: RequestResponseCycle, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """A whole answer in one write: uvicorn's two are two packets, which wake the client twice.

        What `headers` hold is known to be fit for a header.
        """
        if self.flow.write_paused:
            await self.flow.drain()
        if cycle.disconnected or self.lost:
            return
        cycle.response_started = cycle.response_complete = True
        lines = [b"%s: %s\r\n" % header for header in (*cycle.default_headers, *headers)]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        shown = b"" if cycle.scope["method"] == "HEAD" else body
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", shown]))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    # How it ends

    def _expect(self, stage: str) -> None:
        """A header or a body must be whole in time; what is whole has time."""
        self._timed = stage
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if stage != _WHOLE:
            seconds = self.limits.header_timeout if stage == _HEADER else self.limits.body_timeout
            message = f"the {stage} was not whole in time"
            self._deadline = self.loop.call_later(seconds, self._end, 408, "timeout", message)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or is refused while it is parsed, in our own shape."""
        status, message = self._refusal or (400, "this is no HTTP request that can be read")
        self._end(status, "http" if status == 400 else "header", message)

    def _end(self, status: int, reason: str, message: str) -> None:
        """Say why, unless that would be read as the answer to another request, and close."""
        if self.transport.is_closing():
            return
        self.ended(reason)
        answered = self.cycle is None or self.cycle.response_complete
        is_its_own = self._stage == _BODY and not self.pipeline  # the request's that is to be ended
        if answered or (is_its_own and not self.cycle.response_started):
            body = json.dumps({"error": message, "error_type": "timeout" if status == 408 else "validation"})
            self.transport.write(
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()
            )
        self._close()

    def on_response_complete(self) -> None:
        """An answer is out; if it is the last one, it has some time to be read."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._leaving = self.loop.call_later(_SLOW_READER, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """An idle connection ends."""
        self._close()

    def _close(self) -> None:
        """Close, and do not wait for ever until the last bytes are read."""
        self.transport.close()
        self._leaving = self.loop.call_later(_LEAVING, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._reading = self.loop.call_later(_SLOW_READER, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


def bounded(limits: Limits, ended: Callable[[str], None]) -> type[Connection]:
    """The class of a server's connections."""
    return type("BoundedConnection", (Connection,), {"limits": limits, "ended": staticmethod(ended)})
