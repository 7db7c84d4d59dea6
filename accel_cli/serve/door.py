"""What every request passes on its way in and out: identity, token, clock, metrics, log, and last resorts."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import count
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from accel_cli.serve.logs import Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal

_IDENTITY = re.compile(rb"[!-~]{1,128}")
_OPEN = {"/health", "/ready", "/v2/health/live", "/v2/health/ready"}  # to probes, which have no token
_LINGER = 2.0  # seconds in which the rest of a refused body is read, so that the answer arrives
_GONE = 499  # the client left: nothing was answered


class Door:
    """The application: routes, and what is around all of them. It always answers, whatever happens inside."""

    def __init__(self, routes: Sequence[Route], metrics: Metrics, log: Log, token: str | None = None) -> None:
        self._app = Router(routes, redirect_slashes=False)
        self._process = os.urandom(6).hex()
        self._numbers = count()
        self._names: dict[Any, str] = {}
        for route in routes:
            self._names.setdefault(route.endpoint, route.path)
        self._metrics = metrics
        self._log = log
        self._token = sha256(token.encode()).digest() if token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        visit = _Visit(scope, receive, send, self._new_identity)
        scope["app"] = self  # so that the router raises where nothing is served
        try:
            self._admit(scope, visit.headers)
            await self._app(scope, visit.receive, visit.send)
        except Refusal as refusal:
            await visit.refuse(refusal)
        except HTTPException as error:
            await visit.refuse(_not_here(scope, error))
        except ClientDisconnect:
            pass
        except asyncio.CancelledError:  # the client left, or the time for stopping is over
            await visit.refuse(Refusal(503, "unhealthy", "the server stopped before this was answered"))
        except Exception as error:
            self._log.event("error", "fault", error=repr(error), traceback=traceback.format_exc())
            await visit.refuse(Refusal(500, "backend", "the server made a mistake; it is in its log"))
        await visit.linger()
        self._record(scope, visit)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Check the token, in a time that says nothing of it."""
        if self._token is None or _is_open(scope, headers):
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        right = hmac.compare_digest(sha256(given.strip()).digest(), self._token)
        if scheme.lower() != b"bearer" or not right:
            self._metrics.rejected("unauthorized")
            raise Refusal(
                401,
                "unauthorized",
                "this server wants its token: send `Authorization: Bearer TOKEN`",
                {"www-authenticate": "Bearer"},
            )

    def _new_identity(self) -> bytes:
        """A name for a request that has none."""
        return f"{self._process}-{next(self._numbers)}".encode()

    def _record(self, scope: Scope, visit: _Visit) -> None:
        """Metrics and a line in the log."""
        seconds = time.perf_counter() - visit.begin
        code = visit.code or _GONE
        if code == _GONE:
            self._metrics.rejected("disconnected")
        endpoint = "other" if code in (404, 405) else self._names.get(scope.get("endpoint"), "other")
        self._metrics.request(endpoint, code, seconds)
        self._log.event(
            "info",
            "request",
            id=visit.identity.decode(),
            method=scope["method"],
            path=scope["path"][:200],
            code=code,
            ms=round(seconds * 1e3, 3),
            **scope.get("accel.notes", {}),
        )


def _is_open(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    """Whether a request needs no token: probes, and the page, which asks for one."""
    page = scope["path"] == "/" and b"text/html" in headers.get(b"accept", b"")
    return scope["method"] in ("GET", "HEAD") and (page or scope["path"] in _OPEN)


def _not_here(scope: Scope, error: HTTPException) -> Refusal:
    """404 or 405."""
    message = f"{scope['method']} {scope['path'][:80]!r} is not served; GET /openapi.json lists what is"
    return Refusal(error.status_code, "not_found", message, error.headers)


class _Visit:
    """One request and what has become of it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, identity: Callable[[], bytes]) -> None:
        self.begin = time.perf_counter()
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        given = self.headers.get(b"x-request-id", b"")
        self.identity = given if _IDENTITY.fullmatch(given) else identity()
        self.code = 0
        self._scope, self._receive, self._send = scope, receive, send
        sent = self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers
        self._unread = sent
        self._done = False

    async def receive(self) -> Message:
        """The next piece of the body."""
        message = await self._receive()
        if not message.get("more_body", False):
            self._unread = False
        return message

    async def send(self, message: Message) -> None:
        """The next piece of the answer; the last one waits while there is a body that nobody read."""
        if message["type"] == "http.response.start":
            self.code = message["status"]
            milliseconds = f"{(time.perf_counter() - self.begin) * 1e3:.3f}".encode()
            headers: list[Any] = message["headers"]
            headers += [(b"x-request-id", self.identity), (b"x-total-time", milliseconds)]
            if self._unread:
                headers.append((b"connection", b"close"))
        elif self._unread:
            message = {**message, "more_body": True}
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, unless an answer has begun."""
        if not self.code:
            await refusal.reply()(self._scope, self._receive, self.send)

    async def linger(self) -> None:
        """Read what is still being sent, for a while: a client sends first and reads then."""
        if not self._unread or not self.code:
            return
        with suppress(asyncio.TimeoutError, TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(self._discard(), _LINGER)
        self._unread = False
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _discard(self) -> None:
        while (await self._receive()).get("more_body", False):
            pass
