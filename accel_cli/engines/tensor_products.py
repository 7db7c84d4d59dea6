"""Products on tensor cores: weights are packed at load, values stored as the next product reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.buffers import empty, zero
from accel_cli.cuda.device import cupy
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.kernels.base import Runner
from accel_cli.kernels.cast import cast
from accel_cli.kernels.pack_tiles import pack_tiles, packed_shape, split_scale
from accel_cli.kernels.skinny import WIDEST, skinny
from accel_cli.kernels.tensor_gemm import tensor_gemm
from accel_cli.kernels.tensor_operands import DTYPES, Operands, Output, Packed, Type, halves, output_step

# How each precision multiplies. Of split operands sums leave the tensor cores every so many of k: those cut
# off as they add up, which would cost more than the split itself.
OPERANDS = {
    "tf32": Operands(Type.TF32),
    "fp16": Operands(Type.FP16),
    "bf16": Operands(Type.BF16),
    "fp32-split": Operands(Type.FP16, split=True, promote=512),
}


@dataclass(frozen=True)
class Values:
    """Rows of `width` values on the device, stored as `output`.

    `array` is [rows, width and zeros behind], [2, ...] if split.
    """

    array: Any
    width: int
    output: Output

    def floats(self) -> Floats:
        """float32 [rows, width] on the host, once the device has them."""
        array = cupy().asnumpy(self.array)[..., : self.width]
        floats: Floats
        if self.output == Output.BF16:
            floats = (array.astype(np.uint32) << 16).view(np.float32)
        elif self.output == Output.SPLIT:
            floats = array.astype(np.float32).sum(axis=0)
        else:
            floats = array.astype(np.float32)
        return floats


class Room:
    """Memory for at most so many rows of values, whose padding stays zero."""

    def __init__(self, rows: int, width: int, output: Output) -> None:
        step = 1 if output == Output.FP32 else output_step(output)
        self._width, self._row, self._output = width, math.ceil(width / step) * step, output
        self._memory = empty(math.prod(halves(output)) * rows * self._row, dtype=DTYPES[output])
        zero(self._memory)

    def rows(self, count: int) -> Values:
        """The first so many rows."""
        shape = (*halves(self._output), count, self._row)
        return Values(self._memory[: math.prod(shape)].reshape(shape), self._width, self._output)


@dataclass(frozen=True)
class Narrow:
    """A last layer of few outputs, computed in fp32: `weight` [outputs, inputs], `bias` [outputs]."""

    weight: Any
    bias: Any
    reads: Output = Output.FP32


@dataclass(frozen=True)
class Wide:
    """A layer on tensor cores, which reads its operands' type."""

    packed: Packed
    bias: Any

    @property
    def reads(self) -> Output:
        """What it reads."""
        return self.packed.operands.stored


class TensorProducts:
    """Prepares layers at load, and multiplies by them."""

    def __init__(self, precision: str, tiles: TensorTiles, run: Runner) -> None:
        self.operands, self.tiles, self._run = OPERANDS[precision], tiles, run

    def prepare(self, weight: Floats, bias: Floats, *, last: bool) -> Narrow | Wide:
        """A layer of weight [outputs, inputs] and bias [outputs]; the `last` one may have few outputs."""
        if last and len(bias) <= WIDEST:
            return Narrow(cupy().asarray(np.ascontiguousarray(weight)), cupy().asarray(bias))
        return Wide(self.packed(weight[:, :, None]), cupy().asarray(bias))

    def packed(self, weight: Floats) -> Packed:
        """A weight [outputs, inputs, taps], in host memory, as the kernels read it."""
        on_device = cupy().asarray(np.ascontiguousarray(weight))
        return self.packed_on_device(on_device, float(np.abs(weight).max()))

    def packed_on_device(self, weight: Any, largest: float) -> Packed:
        """The same, or a batch of them, of a weight on the device whose largest magnitude is known."""
        operands = self.operands
        scale = split_scale(largest) if operands.split else 1.0
        values = empty(*packed_shape(weight.shape, operands), dtype=operands.dtype)
        pack_tiles(self._run, weight, values, operands, scale)
        return Packed(values, weight.shape[-3], operands, 1.0 / scale)

    def room(self, rows: int, width: int) -> Room:
        """For what a product reads."""
        return Room(rows, width, self.operands.stored)

    def cast(self, x: Any, y: Values) -> None:
        """y = x, float32 [rows, width]."""
        cast(self._run, x, y.array, y.output)

    def __call__(self, x: Values, layer: Narrow | Wide, y: Values, *, rectify: bool = False) -> None:
        """y = x times the layer, and ReLU if asked, but not of a narrow one."""
        if isinstance(layer, Narrow):
            skinny(self._run, x.array, layer.weight, layer.bias, y.array)
            return
        packed = layer.packed
        tile = self.tiles.choose(x.array.shape[-2], packed.columns, packed.operands)
        tensor_gemm(self._run, x.array, packed, layer.bias, y.array, tile=tile, output=y.output, relu=rectify)
