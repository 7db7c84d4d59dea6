"""Matrices for products that are measured: the same values for every program, in memory that takes turns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from accel_cli.batches import Doubles, Floats
from accel_cli.cuda.device import cupy
from accel_cli.engines.tuned import Product
from accel_cli.kernels.base import ceil_div

_PERIOD = 1048583  # a prime: values repeat only after so many, and rows do not begin alike
_ROWS = 32  # of each product that are computed in float64
_MOST = 256  # copies


@dataclass(frozen=True)
class Operands:
    """One copy on the device: y [batch, rows, columns] = a [batch, rows, depth] b [batch, depth, columns].

    `weight` is b transposed, `packed` b with its rows filled up to a multiple of 4; `bias` is zero.
    """

    a: Any
    b: Any
    weight: Any
    packed: Any
    bias: Any
    y: Any


class Matrices:
    """Random values for one product, scaled so that results are about 1, and what is right.

    `a` and `b` are theirs on the host. Two caches hold less than `count` copies of all three matrices, whose
    values take `width` bytes on the device.
    """

    def __init__(self, product: Product, cache: int, width: int = 4) -> None:
        batch, m, n, k = product.batch, product.rows, product.columns, product.depth
        self.a = _values(1, (batch, m, k))
        self.b = _values(2, (batch, k, n)) / np.float32(k**0.5)
        picked = np.random.default_rng(m).integers(0, m, min(m, _ROWS) - 1)
        self.rows = np.unique([0, m - 1, *picked])
        self._exact: Doubles = self.a[:, self.rows].astype(np.float64) @ self.b.astype(np.float64)
        self.count = min(_MOST, ceil_div(2 * cache, traffic(product, width)))

    @cached_property
    def copies(self) -> list[Operands]:
        """In fp32 on the device, in memory of their own."""
        (batch, m, _), n, device = self.a.shape, self.b.shape[2], cupy().asarray
        weight = np.ascontiguousarray(self.b.swapaxes(1, 2))
        packed = np.pad(self.b, ((0, 0), (0, 0), (0, -n % 4)))
        return [
            Operands(
                device(self.a),
                device(self.b),
                device(weight),
                device(packed),
                device(np.zeros(n, np.float32)),
                cupy().empty((batch, m, n), np.float32),
            )
            for _ in range(self.count)
        ]

    def exact(self) -> Doubles:
        """Some rows of each product in float64, the first and the last among them: those named by `rows`."""
        return self._exact

    def found(self, operands: Operands) -> Floats:
        """The same rows of what a program left in y."""
        found: Floats = cupy().asnumpy(operands.y[:, cupy().asarray(self.rows)])
        return found


def traffic(product: Product, width: int = 4) -> int:
    """Bytes of all three matrices, once each, whose values take `width` bytes."""
    m, n, k = product.rows, product.columns, product.depth
    return width * product.batch * (m * k + k * n + m * n)


def poison(array: Any) -> None:
    """Make all of an array on the device NaN, whatever its type of float, on the current stream."""
    array.data.memset_async(0xFF, array.nbytes, cupy().cuda.get_current_stream())


def _values(seed: int, shape: tuple[int, ...]) -> Floats:
    return np.resize(np.random.default_rng(seed).standard_normal(_PERIOD, np.float32), shape)
