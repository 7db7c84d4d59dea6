"""CUDA errors as ours. After a fatal one the device's context is lost, and so is this process's use of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from accel_cli.cuda.device import cupy
from accel_cli.errors import DeviceError


class DeviceLost(DeviceError):
    """The CUDA context is damaged: nothing on this device can be used again by this process."""


class DeviceFull(DeviceError):
    """The device's memory does not hold what was asked for."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn the errors of CuPy and CUDA inside into DeviceFull and DeviceLost."""
    module = cupy()
    runtime = module.cuda.runtime.CUDARuntimeError
    driver = module.cuda.driver.CUDADriverError
    try:
        yield
    except module.cuda.memory.OutOfMemoryError as error:
        raise DeviceFull(f"the device's memory is full while {doing}: {error}") from error
    except (runtime, driver) as error:
        if "MemoryAllocation" in str(error) or "OUT_OF_MEMORY" in str(error):
            raise DeviceFull(f"the device's memory is full while {doing}: {error}") from error
        raise DeviceLost(
            f"CUDA failed while {doing}: {error}. Start accel again; if it comes back, run it with"
            " CUDA_LAUNCH_BLOCKING=1 and report the message, or use `--device cpu`"
        ) from error
