"""The page for people: one file, which may run its own script, show its own style and ask its own server."""

from __future__ import annotations

import base64
from hashlib import sha256
from pathlib import Path

from accel_cli.serve.replies import Reply

_PAGE = (Path(__file__).parent / "page.html").read_bytes()


def _digest(tag: str) -> str:
    """What stands between the page's tags of this name, as a content security policy names it."""
    inside = _PAGE.split(f"<{tag}>".encode())[1].split(f"</{tag}>".encode())[0]
    return f"'sha256-{base64.b64encode(sha256(inside).digest()).decode()}'"


_HEADERS = {
    "content-security-policy": f"default-src 'none'; script-src {_digest('script')};"
    f" style-src {_digest('style')}; connect-src 'self'; img-src data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def page_reply() -> Reply:
    """The page."""
    headers = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    return Reply(_PAGE, media_type=b"text/html; charset=utf-8", headers=headers)
