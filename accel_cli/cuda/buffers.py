"""Memory that is allocated once, at the start: pinned host arrays and device arrays, used in slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.cuda.device import cupy

_SMALL = 1 << 14  # bytes that are copied sooner than asked where they lie
_TINY = 1 << 10  # bytes that are compared sooner than copied


def page_locked(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """A page-locked host array, so that copies run beside compute."""
    module = cupy()
    count = int(np.prod(shape))
    memory = module.cuda.alloc_pinned_memory(max(1, count) * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype, count).reshape(shape)


def is_page_locked(values: npt.NDArray[Any]) -> bool:
    """Whether a host array can be copied beside compute."""
    runtime = cupy().cuda.runtime
    attributes = runtime.pointerGetAttributes(values.ctypes.data)
    return bool(attributes.type == runtime.memoryTypeHost)


def empty(*shape: int, dtype: str = "float32") -> Any:
    """An array on the device."""
    return cupy().empty(shape, dtype)


def uploaded(values: npt.NDArray[Any]) -> Any:
    """An array in ordinary host memory on the device, copied on the current stream.

    `asarray` would first page-lock as much memory as the array takes, and copy it there.
    """
    source = np.ascontiguousarray(values)
    array = empty(*source.shape, dtype=str(source.dtype))
    array.data.copy_from_host_async(source.ctypes.data, source.nbytes, cupy().cuda.get_current_stream())
    return array


def zero(array: Any) -> None:
    """Fill an array on the device with zero bytes, on the current stream."""
    array.data.memset_async(0, array.nbytes, cupy().cuda.get_current_stream())


class Mirror:
    """A flat array on the host (page-locked if `pinned`) and on the device, of the same size."""

    def __init__(self, size: int, dtype: str, *, pinned: bool = True) -> None:
        self._pinned = pinned
        self.host = page_locked((size,), dtype) if pinned else np.empty(size, dtype)
        self._address = self.host.ctypes.data  # which numpy takes microseconds to say
        self.device = empty(size, dtype=dtype)
        self._last = b""  # what the device holds, if that is tiny

    def upload(self, values: npt.NDArray[Any], stream: Any) -> Any:
        """Copy `values` to the device, asynchronously; the device array in their shape.

        What is page-locked already is read where it lies, and must not change before the copy is done.
        """
        source = np.ascontiguousarray(values)
        part = self.device[: source.size]
        if values.ndim > 1:
            part = part.reshape(values.shape)
        content = source.tobytes() if source.nbytes <= _TINY else b""
        if content and content == self._last:
            return part
        if self._pinned and (source.nbytes <= _SMALL or not is_page_locked(source)):
            self.host[: source.size] = source.ravel()
            address = self._address
        else:
            address = source.ctypes.data
        self.device.data.copy_from_host_async(address, source.nbytes, stream)
        self._last = content
        return part

    def download(self, size: int, stream: Any) -> None:
        """Copy the first `size` values to the host, asynchronously."""
        self.device.data.copy_to_host_async(self._address, size * self.host.itemsize, stream)
