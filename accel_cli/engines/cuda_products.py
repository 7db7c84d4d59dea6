"""Matrix products on a CUDA device, by the kernel that the plan names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.device import cupy
from accel_cli.cuda.ranges import named
from accel_cli.engines.cuda_outputs import Outputs
from accel_cli.engines.tiles import Tiles
from accel_cli.kernels import skinny as skinny_kernel
from accel_cli.kernels.base import Runner, ceil_div
from accel_cli.kernels.gemm_tiled import gemm_tiled
from accel_cli.kernels.linear import linear
from accel_cli.kernels.pack_taps import pack_taps
from accel_cli.kernels.relu import relu
from accel_cli.kernels.sgemm import sgemm, sgemm_residual
from accel_cli.kernels.skinny import skinny, skinny_scores, skinny_softmax
from accel_cli.kernels.softmax import softmax

PLAIN: dict[str, Callable[..., None]] = {"naive": linear, "tiled": gemm_tiled, "sgemm": skinny}


@dataclass(frozen=True)
class Dense:
    """A fully connected layer on the device: `weight` as its kernel reads it, `bias` [outputs].

    `weight` is [outputs, inputs], or for sgemm k-major [inputs, outputs rounded up to 4] (`packed`).
    """

    weight: Any
    bias: Any
    packed: bool


class Products:
    """Prepares layers at load, and multiplies by them; `fused` leaves what follows to the same kernel."""

    def __init__(self, gemm: str, tiles: Tiles, run: Runner, *, fused: bool) -> None:
        self.gemm, self.tiles, self.fused, self._run = gemm, tiles, fused, run

    def prepare(self, weight: Floats, bias: Floats) -> Dense:
        """A layer of weight [outputs, inputs] and bias [outputs]."""
        if self.gemm == "sgemm" and len(bias) > skinny_kernel.WIDEST:
            return Dense(self.packed(weight[:, :, None]), cupy().asarray(bias), True)
        return Dense(cupy().asarray(np.ascontiguousarray(weight)), cupy().asarray(bias), False)

    def packed(self, weight: Floats) -> Any:
        """weight [outputs, inputs, taps] as sgemm reads it, [taps * inputs, outputs rounded up to 4]."""
        outputs, inputs, taps = weight.shape
        packed = cupy().empty((taps * inputs, ceil_div(outputs, 4) * 4), np.float32)
        pack_taps(self._run, cupy().asarray(np.ascontiguousarray(weight)), packed)
        return packed

    def __call__(self, x: Any, layer: Dense, y: Any, *, rectify: bool = False) -> None:
        """y [rows, outputs] = x [rows, inputs] times the layer, and ReLU if asked."""
        run, fused = self._run, False
        if layer.packed:
            tile, fused = self.tiles.choose(len(x), len(layer.bias), x.shape[1]), self.fused
            sgemm(run, x, layer.weight, layer.bias, y, relu=rectify and fused, tile=tile)
        else:
            PLAIN[self.gemm](run, x, layer.weight, layer.bias, y)
        if rectify and not fused:
            relu(run, y)

    def adds(self, layer: Dense) -> bool:
        """Whether `residual` takes the layer."""
        return self.fused and layer.packed

    def residual(self, x: Any, layer: Dense, y: Any) -> None:
        """y = max(x times the layer, 0) + x, all [rows, width], in one kernel."""
        tile = self.tiles.choose(len(x), len(layer.bias), x.shape[1])
        sgemm_residual(self._run, x, layer.weight, layer.bias, y, tile=tile)

    def softmax(self, x: Any, layer: Dense, y: Any) -> None:
        """y [rows, outputs] = softmax of x times the layer."""
        if self.fused and not layer.packed:
            skinny_softmax(self._run, x, layer.weight, layer.bias, y)
        else:
            self(x, layer, y)
            softmax(self._run, y, y)

    def score(self, x: Any, layer: Dense, outputs: Outputs) -> None:
        """All outputs, by the last layer."""
        logits = outputs.logits
        with named("logits"):
            if self.fused and not layer.packed:
                written = logits, outputs.scores, outputs.labels
                skinny_scores(self._run, x, layer.weight, layer.bias, *written)
                return
            self(x, layer, logits)
        outputs.score(self._run)
