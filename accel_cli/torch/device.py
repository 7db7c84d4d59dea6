"""PyTorch's streams and tensors as kernels take them: a runner, and arrays of CuPy on the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from accel_cli.cuda.device import cupy, facts
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.tiles import Tiles
from accel_cli.kernels.base import Runner
from accel_cli.kernels.tensor_operands import Output

STORED = {torch.float32: Output.FP32, torch.float16: Output.FP16, torch.bfloat16: Output.BF16}


@dataclass(frozen=True)
class Kernels:
    """What runs kernels on one device, and the tiles of its products."""

    run: Runner
    tiles: Tiles


@contextmanager
def kernels(what: str, tensor: Tensor) -> Iterator[Kernels]:
    """The kernels of a tensor's device; inside, they are enqueued on PyTorch's current stream there."""
    module, index = cupy(), tensor.device.index
    stream = torch.cuda.current_stream(tensor.device)
    with module.cuda.Device(index), translated(f"running {what}"), module.cuda.Stream.from_external(stream):
        yield _kernels(index)


@cache  # loaded kernels stay loaded, as PyTorch's own do
def _kernels(index: int) -> Kernels:
    device = facts(index)
    return Kernels(Launcher(device), Tiles(device))


def array(tensor: Tensor) -> Any:
    """The same memory as an array of CuPy; bfloat16, for which there is no type, as its bits in uint16."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return cupy().from_dlpack(tensor.view(torch.int16)).view("uint16")
    return cupy().from_dlpack(tensor)


def laid_out(tensor: Tensor) -> Tensor:
    """The tensor, or a copy, contiguous and from a multiple of 16 bytes on, as kernels read it."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor
