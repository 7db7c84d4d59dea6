"""What every request passes on its way in and out: identity, token, clock, metrics, log, and last resorts."""

from __future__ import annotations

import asyncio
import hmac
import os
import time
import traceback
from hashlib import sha256
from itertools import count

from accel_cli.serve.connection import ClientLeft
from accel_cli.serve.logs import Log
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal
from accel_cli.serve.routes import Routes
from accel_cli.serve.visit import Receive, Scope, Send, Visit

_OPEN = {"/health", "/ready", "/v2/health/live", "/v2/health/ready"}  # to probes, which have no token
_GONE = 499  # the client left: nothing was answered


class Door:
    """The application: routes, and what is around all of them. It always answers, whatever happens inside."""

    def __init__(self, routes: Routes, metrics: Metrics, log: Log, token: str | None = None) -> None:
        self._routes = routes
        self._process = os.urandom(6).hex()
        self._numbers = count()
        self._metrics = metrics
        self._log = log
        self._token = sha256(token.encode()).digest() if token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        visit = Visit(scope, receive, send, self._new_identity)
        try:
            self._admit(visit)
            visit.place, handler = self._routes.find(visit.method, visit.path)
            await visit.answer(await handler(visit))
        except Refusal as refusal:
            await visit.answer(refusal.reply())
        except ClientLeft:
            visit.give_up()
        except asyncio.CancelledError:  # the client left, or the time for stopping is over
            await _give_up(visit, Refusal(503, "unhealthy", "the server stopped before this was answered"))
        except Exception as error:
            self._log.event("error", "fault", error=repr(error), traceback=traceback.format_exc())
            await _give_up(visit, Refusal(500, "backend", "the server made a mistake; it is in its log"))
        self._record(visit)

    def _admit(self, visit: Visit) -> None:
        """Check the token, in a time that says nothing of it."""
        if self._token is None or _is_open(visit):
            return
        scheme, _, given = visit.headers.get(b"authorization", b"").partition(b" ")
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

    def _record(self, visit: Visit) -> None:
        """Metrics and a line in the log."""
        seconds = time.perf_counter() - visit.begin
        code = visit.code or _GONE
        if code == _GONE:
            self._metrics.rejected("disconnected")
        self._metrics.request(visit.place, code, seconds)
        self._log.event(
            "info",
            "request",
            id=visit.identity.decode(),
            method=visit.method,
            path=visit.path[:200],
            code=code,
            ms=round(seconds * 1e3, 3),
            **visit.notes,
        )


async def _give_up(visit: Visit, refusal: Refusal) -> None:
    """Answer with a refusal, unless an answer has begun."""
    if not visit.code:
        await visit.answer(refusal.reply())


def _is_open(visit: Visit) -> bool:
    """Whether a request needs no token: probes, and the page, which asks for one."""
    page = visit.path == "/" and b"text/html" in visit.headers.get(b"accept", b"")
    return visit.method in ("GET", "HEAD") and (page or visit.path in _OPEN)
