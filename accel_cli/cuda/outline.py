"""What CuPy is to an engine's layers, without a device: arrays of memory that nobody touches, idle streams.

Kernels are chosen by shapes and types alone, so layers that are built and run over this launch whatever
they would launch on a device.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


class _Array(np.ndarray):
    """An array on no device; its memory is never read."""

    @property
    def data(self) -> Any:
        """Its memory, which takes what is done to it."""
        return _IDLE

    def __matmul__(self, other: Any) -> Any:
        """As large as the product would be: folding weights on the host takes seconds."""
        return Outline.asarray(np.zeros((*self.shape[:-1], *other.shape[1:]), self.dtype))


class _Idle:
    """A stream, an event, memory: whatever it is told to do, it need not."""

    def __init__(self, **settings: Any) -> None: ...

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *failure: object) -> None: ...

    def record(self, stream: Any = None) -> None:
        """An event's."""

    def wait_event(self, event: Any) -> None:
        """A stream's."""

    def memset_async(self, value: int, size: int, stream: Any) -> None:
        """Memory's."""

    def copy_from_host_async(self, host: int, size: int, stream: Any) -> None:
        """Memory's."""


_IDLE = _Idle()


class Outline:
    """As much of the module `cupy` as layers use."""

    cuda = SimpleNamespace(
        Stream=_Idle,
        Event=_Idle,
        get_current_stream=lambda: _IDLE,
        nvtx=SimpleNamespace(available=False),
    )

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Any:
        """Untouched memory, of which the system gives none."""
        return np.empty(shape, dtype).view(_Array)

    @staticmethod
    def asarray(values: Any) -> Any:
        """An array of the host's, where it lies."""
        return values.view(_Array)
