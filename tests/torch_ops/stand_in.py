"""A device for the operators on a machine without one: the fake CuPy, and tensors of the CPU in its place.

What the operators register for CUDA is called with them directly. Kernels are enqueued on the fake's streams,
which run nothing before somebody waits.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import fake_cupy
import numpy as np
import pytest
import torch

from accel_cli.torch import device


class Streams:
    """PyTorch's streams by their handles: the current one is whichever `current` is."""

    def __init__(self) -> None:
        self.known = {handle: fake_cupy.Stream() for handle in (0, 7)}
        self.current = 0

    def of_pytorch(self, place: Any) -> Any:
        """As torch.cuda.current_stream."""
        return SimpleNamespace(__cuda_stream__=lambda: (0, self.current))

    def of_cupy(self, stream: Any) -> fake_cupy.Stream:
        """As cupy.cuda.Stream.from_external."""
        version, handle = stream.__cuda_stream__()
        assert version == 0
        return self.known[handle]

    def wait(self) -> None:
        """For all of them."""
        for stream in self.known.values():
            stream.synchronize()


def stand_in(monkeypatch: pytest.MonkeyPatch) -> Streams:
    """Put the fake in the place of the device."""
    streams, module = Streams(), fake_cupy.module()
    module.from_dlpack = np.from_dlpack
    module.cuda.Stream = SimpleNamespace(from_external=streams.of_cupy)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(device, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(device, "_kernels", device._kernels.__wrapped__)  # nothing is kept for other tests
    monkeypatch.setattr(torch.cuda, "current_stream", streams.of_pytorch)
    return streams
