"""Replies: all at once, since every one of them is small."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

JSON = b"application/json"
BINARY = b"application/octet-stream"


@dataclass(slots=True)
class Reply:
    """One response. `headers` come besides the type and the length."""

    body: bytes
    status: int = 200
    media_type: bytes = JSON
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def json_reply(value: Any) -> Reply:
    """A value as JSON."""
    return Reply(json.dumps(value).encode())
