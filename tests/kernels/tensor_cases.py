"""Products and convolutions for the tests of the tensor cores' kernels, and what must come out."""

from __future__ import annotations

import numpy as np
from host_cuda.backends import Backend
from host_cuda.checks import poisoned, random_floats

from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.tensor_gemm import (
    tensor_experts,
    tensor_gemm,
    tensor_ids,
    tensor_residual,
    tensor_windows,
)
from accel_cli.kernels.tensor_operands import DTYPES, Operands, Output, Packed, Type, halves, padded
from accel_cli.kernels.tensor_tile import Source, TensorTile
from kernels.ragged import offsets_of, windows
from kernels.tensors import pack, pack_rows, rounded, rows_of, values, with_zeros

FP16, BF16, TF32 = map(Operands, Type)
SPLIT = Operands(Type.FP16, split=True, promote=128)
EXACT = 3e-5  # of the sums in fp32, which tensor cores cut off; products of rounded operands are exact
# operands of a layer with a shortcut, and what its values are stored as
SHORTCUTS = [(FP16, Output.FP16), (BF16, Output.FP32), (TF32, Output.TF32), (SPLIT, Output.SPLIT)]
LENGTHS = [4, 16, 3, 7, 5, 3, 30, 3]


def named(operands: Operands) -> str:
    return operands.stored.name


def stored(x: np.ndarray, operands: Operands) -> np.ndarray:
    """Rows as a kernel reads them."""
    return rounded(with_zeros(x, padded(x.shape[-1], operands.type)), operands.stored)


def seen(x: np.ndarray, operands: Operands) -> np.ndarray:
    """The numbers that are left of x."""
    return values(rounded(x, operands.stored), operands.stored)


class Product:
    """a [.., M, K] times weight [.., N, K] transposed."""

    def __init__(self, operands: Operands, *shape: int, batch: tuple[int, ...] = ()) -> None:
        rows, columns, depth = shape
        self.operands, self.columns = operands, columns
        self.a = random_floats(*batch, rows, depth)
        self.weight = random_floats(*batch, columns, depth, seed=1)
        self.bias = random_floats(columns)

    def packed(self, backend: Backend, scale: float = 1.0) -> Packed:
        packed = pack(self.weight[..., None] * np.float32(scale), self.operands)
        return Packed(backend.array(packed), self.columns, self.operands, 1 / scale)

    def expected(self) -> np.ndarray:
        return seen(self.a, self.operands) @ seen(self.weight, self.operands).swapaxes(-1, -2)

    def run(self, backend: Backend, tile: TensorTile, output: Output = Output.FP32) -> np.ndarray:
        y = backend.array(poisoned((*halves(output), len(self.a), self.columns), DTYPES[output]))
        a, bias = backend.array(stored(self.a, self.operands)), backend.array(self.bias)
        tensor_gemm(backend.run, a, self.packed(backend), bias, y, tile=tile, output=output)
        return backend.numpy(y)


class Shortcut(Product):
    """A product of as many columns as its rows have values, which are added to what ReLU leaves of it."""

    def __init__(self, operands: Operands, rows: int, width: int) -> None:
        super().__init__(operands, rows, width, width)

    def added(self, backend: Backend, tile: TensorTile, output: Output) -> np.ndarray:
        y = backend.array(poisoned((*halves(output), len(self.a), self.columns), DTYPES[output]))
        x, bias = backend.array(stored(self.a, self.operands)), backend.array(self.bias)
        tensor_residual(backend.run, x, self.packed(backend), bias, y, tile=tile, output=output)
        return values(backend.numpy(y), output)

    def expected_added(self) -> np.ndarray:
        return np.maximum(self.expected() + self.bias, 0) + seen(self.a, self.operands)


class Convolution:
    """Sentences, the windows that lie inside them, and what a convolution makes of them."""

    def __init__(
        self, operands: Operands, lengths: list[int], width: int, dimension: int, filters: int
    ) -> None:
        self.operands, self.width = operands, width
        self.x = random_floats(sum(lengths), dimension)
        self.weight = random_floats(filters, dimension, width, seed=1)
        self.bias = random_floats(filters)
        places = list(windows(offsets_of(lengths), width))
        starts = [first + np.arange(count) for _, first, count in places]
        self.starts = np.concatenate(starts).astype(np.int32)
        self.owners = np.concatenate([[s] * count for s, _, count in places]).astype(np.int32)
        self.features = np.zeros((len(lengths), filters + 3), np.float32)

    def run_windows(self, backend: Backend, tile: TensorTile) -> np.ndarray:
        features, x = backend.array(self.features), backend.array(stored(self.x, self.operands))
        tensor_windows(backend.run, x, *self._arrays(backend), features, 3, tile=tile)
        return backend.numpy(features)

    def run_ids(self, backend: Backend, tile: TensorTile) -> np.ndarray:
        """From a table with the words in another order."""
        order = np.random.default_rng(3).permutation(len(self.x))
        table, ids = stored(self.x[order], self.operands), np.argsort(order).astype(np.int32)
        features, arrays = backend.array(self.features), (backend.array(ids), backend.array(table))
        tensor_ids(backend.run, *arrays, *self._arrays(backend), features, 3, tile=tile)
        return backend.numpy(features)

    def _arrays(self, backend: Backend) -> tuple[object, ...]:
        packed = Packed(backend.array(pack(self.weight, self.operands)), len(self.bias), self.operands)
        return (backend.array(self.starts), backend.array(self.owners), packed, backend.array(self.bias))

    def expected(self) -> np.ndarray:
        x = with_zeros(seen(self.x, self.operands), padded(self.x.shape[1], self.operands.type))
        rows = np.stack([x[start : start + self.width].ravel() for start in self.starts])
        y = np.maximum(rows @ rows_of(seen(self.weight, self.operands), self.operands).T + self.bias, 0)
        pooled = [y[self.owners == sentence].max(0) for sentence in range(len(self.features))]
        return np.hstack([np.zeros((len(pooled), 3)), np.stack(pooled)])


class Experts(Product):
    """A product whose columns are the outputs of experts, hidden value by hidden value."""

    def __init__(self, operands: Operands, rows: int, hidden: int, experts: int, depth: int) -> None:
        super().__init__(operands, rows, hidden * experts, depth)
        self.gate = random_floats(rows, experts)

    def weighed(
        self,
        backend: Backend,
        tile: TensorTile,
        output: Output,
        relu: bool,
        source: Source = Source.MATRIX,
    ) -> np.ndarray:
        (rows, experts), depth = self.gate.shape, self.a.shape[1]
        a = stored(self.a, self.operands)
        if source == Source.PACKED:
            a = pack_rows(with_zeros(self.a, ceil_div(depth, 64) * 64), self.operands.stored)
        a = backend.array(a)
        y = backend.array(poisoned((*halves(output), rows, self.columns // experts), DTYPES[output]))
        arrays = (a, backend.array(self.gate), self.packed(backend), backend.array(self.bias), y)
        tensor_experts(backend.run, *arrays, tile=tile, output=output, relu=relu, source=source)
        return backend.numpy(y)

    def expected_weighed(self, relu: bool) -> np.ndarray:
        outputs = (self.expected() + self.bias).reshape(len(self.a), -1, self.gate.shape[1])
        expected = np.einsum("mhe,me->mh", outputs, self.gate)
        return np.maximum(expected, 0) if relu else expected
