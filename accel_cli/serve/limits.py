"""What the server takes on, and how long it waits: every bound in one place."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from accel_cli.engines.base import Plan
from accel_cli.errors import UsageError
from accel_cli.model.config import ModelSpec
from accel_cli.text.tokenizer import BYTES_PER_TOKEN

MAX_INFLIGHT = {"cpu": 512, "cuda": 65_536}
MAX_CLIENT_BATCH = 8_192
MAX_BODY_BYTES = 16 << 20
_USUAL_TOKENS = 32  # of a sentence, where sentences have any length
_MOST_CONNECTIONS = 4_096
_OTHER_FILES = 64  # descriptors that are kept for everything but connections


@dataclass(frozen=True)
class Limits:
    """The bounds of a server. Sizes in bytes, times in seconds.

    `max_inflight` inputs may be admitted and unanswered, `max_client_batch` come in one request, and
    `max_batch_tokens` tokens go to the engine at once. The first `max_text_bytes` of a text are looked at.
    All bodies that are being read together may have `max_buffered_bytes`.
    """

    max_inflight: int
    max_batch_tokens: int
    max_text_bytes: int
    max_client_batch: int = MAX_CLIENT_BATCH
    max_body_bytes: int = MAX_BODY_BYTES
    max_header_bytes: int = 16 << 10
    max_nesting: int = 32
    max_connections: int = _MOST_CONNECTIONS
    queue_delay: float = 0.0
    header_timeout: float = 10.0
    body_timeout: float = 30.0
    idle_timeout: float = 75.0
    drain_timeout: float = 30.0
    failure_grace: float = 2.0

    @property
    def max_buffered_bytes(self) -> int:
        """For the bodies of all requests together."""
        return 16 * self.max_body_bytes

    @property
    def max_values(self) -> int:
        """Lists, objects and commas in one JSON body: two a sentence, and some for the frame."""
        return 2 * self.max_client_batch + 256


def limits_for(
    spec: ModelSpec, plan: Plan, *, max_inflight: int | None, max_batch_tokens: int | None, **asked: float
) -> Limits:
    """The limits asked for, the others from the plan; UsageError if they contradict each other."""
    kind = plan.device.partition(":")[0]
    usual = spec.length or min(spec.max_tokens, _USUAL_TOKENS)
    looked_at = BYTES_PER_TOKEN * spec.max_tokens
    limits = Limits(
        max_inflight or MAX_INFLIGHT[kind],
        max_batch_tokens or max(plan.batch * usual, spec.max_tokens),
        looked_at,
        max_connections=min(_MOST_CONNECTIONS, _descriptors() - _OTHER_FILES),
        **asked,  # type: ignore[arg-type]
    )
    if limits.max_batch_tokens < spec.max_tokens:
        raise UsageError(
            f"--max-batch-tokens {limits.max_batch_tokens}: one sentence of this model may have"
            f" {spec.max_tokens} tokens; allow at least as many"
        )
    if limits.max_body_bytes < looked_at:
        raise UsageError(
            f"--max-body-bytes {limits.max_body_bytes}: one text of this model may have {looked_at} bytes;"
            " allow at least as many"
        )
    if limits.queue_delay >= limits.drain_timeout:
        raise UsageError(
            f"--max-queue-delay-us {limits.queue_delay * 1e6:.0f} is no shorter than --drain-seconds"
            f" {limits.drain_timeout:g}: requests would wait longer than a stop lets them; shorten the delay"
        )
    if limits.max_connections < 1:
        raise UsageError(
            f"this process may open {_descriptors()} files, too few for a server; raise `ulimit -n`"
        )
    return limits


def _descriptors() -> int:
    """The files and sockets that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
