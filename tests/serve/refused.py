"""Whether something is refused."""

from __future__ import annotations

from collections.abc import Callable

from accel_cli.serve.refusals import Refusal


def refused_with(call: Callable[[], object]) -> int | None:
    """The status with which a call is refused, or None if it is not; any other failure is one."""
    try:
        call()
    except Refusal as refusal:
        return refusal.status
    return None
