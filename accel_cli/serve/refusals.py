"""How a request is refused: one class, and one JSON shape that the clients of every protocol can read."""

from __future__ import annotations

from collections.abc import Mapping

from accel_cli.serve.replies import Reply, json_reply


class Refusal(Exception):
    """A request that gets no answer but this status and message.

    `kind` is the `error_type` of Text Embeddings Inference: validation, empty, overloaded, unhealthy,
    backend; besides unauthorized, not_found and timeout.
    """

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = dict(headers or {})

    def reply(self) -> Reply:
        """The response that says so."""
        reply = json_reply({"error": self.message, "error_type": self.kind})
        reply.status = self.status
        reply.headers += [(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()]
        return reply


def malformed(message: str) -> Refusal:
    """400: the body cannot be read as what it claims to be."""
    return Refusal(400, "validation", message)


def invalid(message: str) -> Refusal:
    """422: the body can be read, but asks for what this model cannot do."""
    return Refusal(422, "validation", message)


def empty() -> Refusal:
    """400: there is nothing to classify."""
    return Refusal(400, "empty", "the request holds no text; send at least one")


def overloaded(message: str) -> Refusal:
    """429: try again in a second."""
    return Refusal(429, "overloaded", message, {"retry-after": "1"})


def unavailable(message: str) -> Refusal:
    """503: not ready yet, or no more."""
    return Refusal(503, "unhealthy", message, {"retry-after": "5"})
