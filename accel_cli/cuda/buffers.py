"""Memory that is allocated once, at the start: pinned host arrays and device arrays, used in slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.cuda.device import cupy


def pinned(shape: tuple[int, ...], dtype: str) -> npt.NDArray[Any]:
    """A page-locked host array, so that copies run beside compute."""
    module = cupy()
    count = int(np.prod(shape))
    memory = module.cuda.alloc_pinned_memory(max(1, count) * np.dtype(dtype).itemsize)
    return np.frombuffer(memory, dtype, count).reshape(shape)


class Mirror:
    """A flat array on the host (pinned) and on the device, of the same size."""

    def __init__(self, size: int, dtype: str) -> None:
        self.host = pinned((size,), dtype)
        self.device: Any = cupy().empty(size, dtype)

    def upload(self, values: npt.NDArray[Any], stream: Any) -> Any:
        """Copy `values` to the device, asynchronously; the device array in their shape."""
        size = values.size
        self.host[:size] = values.ravel()
        part = self.device[:size]
        part.data.copy_from_host_async(self.host.ctypes.data, part.nbytes, stream)
        return part.reshape(values.shape)

    def download(self, size: int, stream: Any) -> None:
        """Copy the first `size` values to the host, asynchronously."""
        part = self.device[:size]
        part.data.copy_to_host_async(self.host.ctypes.data, part.nbytes, stream)
