"""Reading request bodies: refused beyond the limit while they stream, and bounded all together."""

from __future__ import annotations

from collections.abc import Mapping

from accel_cli.serve.connection import ClientLeft
from accel_cli.serve.limits import Limits
from accel_cli.serve.refusals import Refusal, overloaded
from accel_cli.serve.visit import Visit


class Bodies:
    """Reads bodies, and knows how much of all of them is in memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffered = 0

    async def read(self, visit: Visit) -> bytes:
        """The whole body. Raises Refusal, or ClientLeft if the client leaves."""
        self._check_header(visit.headers)
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await visit.receive()
                if message["type"] == "http.disconnect":
                    raise ClientLeft
                chunk = message.get("body", b"")
                size += len(chunk)
                self._buffered += len(chunk)
                self._check(size)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks) if len(chunks) > 1 else chunk
        finally:
            self._buffered -= size

    def _check_header(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse by the header alone what need not be sent at all."""
        coding = headers.get(b"content-encoding", b"identity").lower()
        if coding != b"identity":
            raise Refusal(
                415,
                "validation",
                f"Content-Encoding: {coding[:40].decode('latin-1')!r} is not taken; send the body as it is",
            )
        announced = headers.get(b"content-length", b"")
        if announced.isdigit():
            self._check(int(announced[:20]))

    def _check(self, size: int) -> None:
        most = self._limits.max_body_bytes
        if size > most:
            raise Refusal(
                413,
                "validation",
                f"the body has more than {most} bytes; send its texts in several requests",
            )
        if self._buffered > self._limits.max_buffered_bytes:
            raise overloaded("too many large requests are being read; try again")
