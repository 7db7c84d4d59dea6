"""Responses: all at once, since every one of them is small."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

JSON = "application/json"


class Reply:
    """One response as an ASGI application."""

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._body = body
        self._status = status
        self._headers = [
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        if headers:
            self._headers += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def json_reply(value: Any) -> Reply:
    """A value as JSON."""
    return Reply(json.dumps(value).encode())
