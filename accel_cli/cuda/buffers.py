"""Memory that is allocated once, at the start: pinned host arrays and device arrays, used in slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.cuda.device import cupy


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


def zero(array: Any) -> None:
    """Fill an array on the device with zero bytes, on the current stream."""
    array.data.memset_async(0, array.nbytes, cupy().cuda.get_current_stream())


class Mirror:
    """A flat array on the host (page-locked if `pinned`) and on the device, of the same size."""

    def __init__(self, size: int, dtype: str, *, pinned: bool = True) -> None:
        self._pinned = pinned
        self.host = page_locked((size,), dtype) if pinned else np.empty(size, dtype)
        self.device = empty(size, dtype=dtype)

    def upload(self, values: npt.NDArray[Any], stream: Any) -> Any:
        """Copy `values` to the device, asynchronously; the device array in their shape.

        What is page-locked already is read where it lies, and must not change before the copy is done.
        """
        size, source = values.size, np.ascontiguousarray(values)
        if self._pinned and not is_page_locked(source):
            self.host[:size] = source.ravel()
            source = self.host
        part = self.device[:size]
        part.data.copy_from_host_async(source.ctypes.data, part.nbytes, stream)
        return part.reshape(values.shape)

    def download(self, size: int, stream: Any) -> None:
        """Copy the first `size` values to the host, asynchronously."""
        part = self.device[:size]
        part.data.copy_to_host_async(self.host.ctypes.data, part.nbytes, stream)
