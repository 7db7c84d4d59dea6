"""Fully connected layers with a shortcut on a CUDA device, y = max(x W + b, 0) + x, in fp32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.engines.cuda_products import Dense, Products
from accel_cli.kernels.base import Runner
from accel_cli.kernels.relu_add import relu_add


class Shortcuts:
    """The product itself adds x where it can; else one kernel after it does what is left."""

    def __init__(self, layers: Sequence[Dense], products: Products, run: Runner) -> None:
        self._products, self._run = products, run
        apart = [len(layer.bias) for layer in layers if not products.adds(layer)]
        self._widest = max(apart, default=0)
        self._zeros = cupy().asarray(np.zeros(self._widest, np.float32))  # the product has added the bias

    def room(self, sentences: int) -> Any:
        """For what a product leaves to the kernel after it."""
        return empty(sentences * self._widest)

    def __call__(self, x: Any, layer: Dense, room: Any, y: Any) -> None:
        """y = max(x times the layer, 0) + x, all [rows, width]."""
        if self._products.adds(layer):
            self._products.residual(x, layer, y)
            return
        sums = room[: y.size].reshape(y.shape)
        self._products(x, layer, sums)
        relu_add(self._run, sums, x, self._zeros[: y.shape[1]], y)
