"""The products of a Toom-Cook convolution on tensor cores; its transforms stay in fp32."""

from __future__ import annotations

from typing import Any

from accel_cli.cuda.buffers import empty
from accel_cli.engines.tensor_products import TensorProducts
from accel_cli.engines.values import Room
from accel_cli.kernels.base import Runner
from accel_cli.kernels.tensor_gemm import tensor_batched
from accel_cli.kernels.transpose import transpose


class TensorPoints:
    """Points of cuda_toomcook whose operands are rounded or split before they are multiplied."""

    def __init__(self, products: TensorProducts, run: Runner) -> None:
        self._products, self._run = products, run

    def load(self, weights: Any, largest: float) -> None:
        """Pack weights [points, dimension, row], whose magnitudes are at most `largest`."""
        points, self._dimension, row = weights.shape
        rows = empty(points, row, self._dimension)
        transpose(self._run, weights, rows)
        self._packed = self._products.packed_on_device(rows[..., None], largest)

    def buffer(self, rows: int) -> Room:
        """The transformed sentences as operands."""
        return self._products.room(rows, self._dimension)

    def __call__(self, v: Any, buffer: Room, m: Any) -> None:
        """m [points, chunks, row] = v [points, chunks, dimension] times the weights."""
        points, chunks, dimension = v.shape
        x = buffer.rows(points * chunks)
        self._products.cast(v.reshape(points * chunks, dimension), x)
        *before, _, pitch = x.array.shape
        packed = self._packed
        tile = self._products.tiles.choose(chunks, packed.columns, packed.operands, batch=points)
        tensor_batched(self._run, x.array.reshape(*before, points, chunks, pitch), packed, m, tile=tile)
