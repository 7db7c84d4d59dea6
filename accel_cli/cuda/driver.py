"""Two calls of CUDA's driver that go round CuPy, whose own would hang or leave an error behind."""

from __future__ import annotations

import ctypes
from typing import Any

from accel_cli.errors import DeviceError

_NOT_READY = 600  # what the driver says of an event that the device has not come to


def hold(stream: Any, seconds: float) -> None:
    """Let a stream sleep, by a function of C.

    One of Python would wait for the interpreter's lock with a lock of the driver in its hand, while CuPy,
    which records events with the interpreter's lock in its own, waits for the driver: for ever, and deaf to
    all signals.
    """
    usleep, microseconds = ctypes.CDLL(None).usleep, ctypes.c_void_p(int(seconds * 1e6))
    status = _driver().cuLaunchHostFunc(ctypes.c_void_p(stream.ptr), usleep, microseconds)
    if status:
        raise DeviceError(f"the driver does not hold a stream up (error {status})")


def reached(event: Any) -> bool:
    """Whether the device has come to an event, or has failed: then waiting for the event says how.

    CUDA's runtime would remember "not ready" as its last error, and CuPy's sums and maxima would stop at it.
    """
    return bool(_driver().cuEventQuery(ctypes.c_void_p(event.ptr)) != _NOT_READY)


def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
