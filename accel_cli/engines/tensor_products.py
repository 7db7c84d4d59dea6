"""Products on tensor cores: weights are packed at load, values stored as the next product reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.buffers import empty, uploaded
from accel_cli.cuda.device import cupy
from accel_cli.cuda.ranges import named
from accel_cli.engines.cuda_outputs import Outputs
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.engines.values import Room, Values
from accel_cli.kernels.base import Runner
from accel_cli.kernels.cast import cast
from accel_cli.kernels.pack_tiles import pack_tiles, packed_shape, split_scale
from accel_cli.kernels.skinny import WIDEST, skinny_scores, skinny_softmax
from accel_cli.kernels.tensor_gemm import tensor_gemm, tensor_residual
from accel_cli.kernels.tensor_operands import Operands, Output, Packed, Type

# How each precision multiplies. Of split operands sums leave the tensor cores every so many of k: those cut
# off as they add up, which would cost more than the split itself.
OPERANDS = {
    "tf32": Operands(Type.TF32),
    "fp16": Operands(Type.FP16),
    "bf16": Operands(Type.BF16),
    "fp32-split": Operands(Type.FP16, split=True, promote=512),
}


@dataclass(frozen=True)
class Narrow:
    """A layer of few outputs, computed in fp32: `weight` [outputs, inputs], `bias` [outputs].

    It reads values of any kind; those of the layer before the last one are left in fp32 for it.
    """

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


def narrow(weight: Floats, bias: Floats) -> Narrow:
    """A narrow layer of weight [outputs, inputs] and bias [outputs] in host memory."""
    return Narrow(cupy().asarray(np.ascontiguousarray(weight)), cupy().asarray(bias))


class TensorProducts:
    """Prepares layers at load, and multiplies by them."""

    def __init__(self, precision: str, tiles: TensorTiles, run: Runner) -> None:
        self.operands, self.tiles, self._run = OPERANDS[precision], tiles, run

    def prepare(self, weight: Floats, bias: Floats) -> Wide:
        """A layer of weight [outputs, inputs] and bias [outputs]."""
        return Wide(self.packed(weight[:, :, None]), cupy().asarray(bias))

    def prepare_last(self, weight: Floats, bias: Floats) -> Narrow | Wide:
        """The same of the last layer, which may have few outputs."""
        return narrow(weight, bias) if len(bias) <= WIDEST else self.prepare(weight, bias)

    def packed(self, weight: Floats) -> Packed:
        """A weight [outputs, inputs, taps], in host memory, as the kernels read it."""
        largest = float(np.abs(weight).max()) if self.operands.split else 0.0
        return self.packed_on_device(uploaded(weight), largest)

    def packed_on_device(self, weight: Any, largest: float = 0.0) -> Packed:
        """The same, or a batch of them, of a weight on the device; `largest` is its magnitude, if split."""
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

    def __call__(self, x: Values, layer: Wide, y: Values, *, rectify: bool = False) -> None:
        """y = x times the layer, and ReLU if asked."""
        packed = layer.packed
        tile = self.tiles.choose(x.array.shape[-2], packed.columns, packed.operands)
        tensor_gemm(self._run, x.array, packed, layer.bias, y.array, tile=tile, output=y.output, relu=rectify)

    def residual(self, x: Values, layer: Wide, y: Values) -> None:
        """y = max(x times the layer, 0) + x, added in fp32."""
        packed = layer.packed
        tile = self.tiles.choose(x.array.shape[-2], packed.columns, packed.operands)
        tensor_residual(self._run, x.array, packed, layer.bias, y.array, tile=tile, output=y.output)

    def softmax(self, x: Values, layer: Narrow, y: Any) -> None:
        """y, float32 [rows, outputs] = softmax of x times the layer."""
        skinny_softmax(self._run, x.array, layer.weight, layer.bias, y, x.output, packed=x.packed)

    def score(self, x: Values, layer: Narrow | Wide, outputs: Outputs) -> None:
        """All outputs, by the last layer: in one kernel if it is narrow."""
        logits = outputs.logits
        with named("logits"):
            if isinstance(layer, Narrow):
                written = logits, outputs.scores, outputs.labels
                skinny_scores(self._run, x.array, layer.weight, layer.bias, *written, x.output)
                return
            self(x, layer, Values(logits, logits.shape[1], Output.FP32))
        outputs.score(self._run)
