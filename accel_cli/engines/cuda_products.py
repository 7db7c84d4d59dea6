"""Matrix products on a CUDA device, by the kernel that the plan names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.device import cupy
from accel_cli.engines.tiles import Tiles
from accel_cli.kernels import skinny as skinny_kernel
from accel_cli.kernels.base import Runner, ceil_div
from accel_cli.kernels.gemm_tiled import gemm_tiled
from accel_cli.kernels.linear import linear
from accel_cli.kernels.pack_taps import pack_taps
from accel_cli.kernels.relu import relu
from accel_cli.kernels.sgemm import sgemm
from accel_cli.kernels.skinny import skinny

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
    """Prepares layers at load, and multiplies by them; `fused` leaves ReLU to the product's own kernel."""

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
