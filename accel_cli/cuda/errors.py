"""CUDA errors as ours. After a fatal one the device's context is lost, and so is this process's use of it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from accel_cli.cuda.device import cupy
from accel_cli.errors import DeviceError


class DeviceLost(DeviceError):
    """The CUDA context is damaged: nothing on this device can be used again by this process."""


class DeviceFull(DeviceError):
    """The device's memory does not hold what was asked for."""


def translated(doing: str) -> AbstractContextManager[None]:
    """Turn the errors of CuPy and CUDA inside into DeviceFull and DeviceLost."""
    return _Translated(doing)


class _Translated:
    """A class, since a generator would cost every batch several times as much."""

    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (ours := _ours(error, self._doing)) is not None:
            raise ours from error


def _ours(error: BaseException, doing: str) -> DeviceError | None:
    """An error of CuPy or CUDA as one of ours, None for any other."""
    cuda = cupy().cuda
    if isinstance(error, cuda.memory.OutOfMemoryError):
        return DeviceFull(f"the device's memory is full while {doing}: {error}")
    if not isinstance(error, (cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError)):
        return None
    if "MemoryAllocation" in str(error) or "OUT_OF_MEMORY" in str(error):
        return DeviceFull(f"the device's memory is full while {doing}: {error}")
    return DeviceLost(
        f"CUDA failed while {doing}: {error}. Start accel again; if it comes back, run it with"
        " CUDA_LAUNCH_BLOCKING=1 and report the message, or use `--device cpu`"
    )
