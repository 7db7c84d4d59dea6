"""One request on its way in and its reply on the way out."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

from accel_cli.serve.connection import CYCLE, KEY, Connection
from accel_cli.serve.replies import Reply

# the Asynchronous Server Gateway Interface, which uvicorn speaks
Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_IDENTITY = re.compile(rb"[!-~]{1,128}")
_LINGER = 2.0  # seconds in which the rest of a refused body is read, so that the answer arrives


class Visit:
    """A request, and what has become of it.

    `headers` has lower-case names; `code` is the status once an answer has begun, else 0; `place` is
    the template of its address; `notes` are for the log.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, identity: Callable[[], bytes]) -> None:
        self.begin = time.perf_counter()
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.connection: Connection = scope[KEY]
        given = self.headers.get(b"x-request-id")
        self.identity = given if given and _IDENTITY.fullmatch(given) else identity()
        self.place = "other"
        self.code = 0
        self.notes: dict[str, Any] = {}
        self._cycle = scope.pop(CYCLE)  # which has the scope: not for the garbage collector to find out
        self._receive, self._send = receive, send
        sent = self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers
        self._unread = sent

    async def receive(self) -> Message:
        """The next piece of the body."""
        message = await self._receive()
        if not message.get("more_body", False):
            self._unread = False
        return message

    async def answer(self, reply: Reply) -> None:
        """Send the reply; a body that still comes is taken all the same: a client sends first, then reads."""
        self.code = reply.status
        headers = [
            (b"content-type", reply.media_type),
            (b"content-length", b"%d" % len(reply.body)),
            *reply.headers,
            (b"x-request-id", self.identity),
            (b"x-total-time", b"%.3f" % ((time.perf_counter() - self.begin) * 1e3)),
        ]
        if self._unread:
            await self._answer_early(reply, headers)
        else:
            await self.connection.answer(self._cycle, reply.status, headers, reply.body)

    def give_up(self) -> None:
        """The client has left: there is no answer."""
        self._cycle.disconnected = True

    async def _answer_early(self, reply: Reply, headers: list[tuple[bytes, bytes]]) -> None:
        """Answer while the body is still coming, and close."""
        headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": reply.body, "more_body": True})
        with suppress(asyncio.TimeoutError, TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._discard(), _LINGER)
        await self._send({"type": "http.response.body"})

    async def _discard(self) -> None:
        while (await self._receive()).get("more_body", False):
            pass
