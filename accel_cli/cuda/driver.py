"""Calls of CUDA's driver that go round CuPy, whose own would hang, leave an error behind, or do not exist."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from accel_cli.cuda.device import cupy
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import Launch

PROGRAMMATIC = 12030  # the first driver that also captures launches of `launch_overlapping`
_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
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


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: an identifier, and a value of up to 64 bytes that begins 8 further on."""

    _fields_ = (("id", ctypes.c_int), ("_pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class _Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_OVERLAP = _Attribute(id=_SERIALIZATION, value=(ctypes.c_int * 16)(1))


def launch_overlapping(function: Any, launch: Launch, arguments: Sequence[Any]) -> None:
    """Launch a loaded kernel that `overlaps` on the current stream, perhaps while the one before it runs.

    `arguments` are packed: arrays of the device, and numbers of numpy.
    """
    values = (ctypes.c_uint64 * len(arguments))(*map(_word, arguments))
    first = ctypes.addressof(values)
    places = (ctypes.c_void_p * len(values))(*range(first, first + 8 * len(values), 8))
    configuration = _Configuration(
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        stream=cupy().cuda.get_current_stream().ptr,
        attributes=ctypes.pointer(_OVERLAP),
        count=1,
    )
    entry = ctypes.c_void_p(function.kernel.ptr)
    status = _driver().cuLaunchKernelEx(ctypes.byref(configuration), entry, places, None)
    if status:
        raise cupy().cuda.driver.CUDADriverError(status)


def _word(argument: Any) -> int:
    """The bits of an argument: eight bytes, of which a number takes the first ones."""
    if isinstance(argument, np.generic):
        return int.from_bytes(argument.tobytes(), "little")
    return int(argument.data.ptr)


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
