"""`accel bench --suite gemm --precision fp16`: products on tensor cores, some fused, beside cuBLAS's."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from accel_cli.batches import Doubles, Floats
from accel_cli.bench.ceiling import CUBLAS, measure_ceiling, tf32
from accel_cli.bench.device_clock import times_in_turns
from accel_cli.bench.gemm import find_cublas
from accel_cli.bench.gemm_report import GemmReport, GemmRow, beside_cublas
from accel_cli.bench.operands import Matrices, poison
from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import DeviceFacts, cupy, facts, index_of
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.planner import HOPPER
from accel_cli.engines.tensor_products import OPERANDS, TensorProducts
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.engines.tuned import Product
from accel_cli.engines.values import Values
from accel_cli.errors import AccelError, UsageError
from accel_cli.kernels.base import Runner, ceil_div
from accel_cli.kernels.cast import cast_packed
from accel_cli.kernels.tensor_gemm import tensor_experts, tensor_gemm, tensor_packed
from accel_cli.kernels.tensor_operands import DTYPES, Output, halves, output_step, packed_rows
from accel_cli.kernels.tensor_tile import Source, TensorTile
from accel_cli.numeric import compare
from accel_cli.validation import TOLERANCE

EXPERTS = 4
# Round ones; the school's network's: convolutions of 4,096 sentences, experts, layers; ragged ones.
PRODUCTS = (
    Product(4096, 4096, 4096),
    Product(16384, 4096, 4096),
    Product(16384, 1024, 2048),
    Product(512, 2048, 4096),
    *(Product(4096 * (17 - width), 1024, width * 4096) for width in (3, 5, 7, 9)),
    Product(4096, 8192, 4096),
    Product(4096, 512, 1024),
    Product(4001, 4003, 4007),
    Product(1000, 777, 333),
)
# As what cuBLAS takes and leaves matrices; CuPy has no bfloat16.
_CUBLAS = {"fp16": Output.FP16, "tf32": Output.FP32, "fp32-split": Output.FP32}


def run(
    device: str,
    precision: str,
    repeats: int,
    tell: Callable[[str], None],
    products: tuple[Product, ...] = PRODUCTS,
) -> GemmReport:
    """Check, then measure every program at every product on `device` ("cuda:N"), in a precision of OPERANDS.

    UsageError for another one; AccelError, before anything of a program is timed, if its result is wrong.
    """
    if precision not in OPERANDS:
        raise UsageError(f"--precision {precision}: products are measured in fp32, {', '.join(OPERANDS)}")
    gpu = facts(index_of(device))
    ceiling = measure_ceiling(gpu.index)
    with cupy().cuda.Device(gpu.index), translated("measuring matrix products"):
        suite = _Suite(gpu, precision, repeats, tell)
        rows = [row for product in products for row in suite.rows(product)]
    return GemmReport(device, ceiling, rows, gpu, precision)


class Layer(Matrices):
    """A product's matrices with a bias and, for columns that are experts' in turn, weights that sum to 1."""

    def __init__(self, product: Product, cache: int, width: int) -> None:
        super().__init__(product, cache, width)
        random = np.random.default_rng(product.columns)
        self.bias: Floats = random.standard_normal(product.columns, np.float32)
        gate = np.exp(random.standard_normal((product.rows, EXPERTS), np.float32))
        self.gate: Floats = gate / gate.sum(axis=1, keepdims=True)


class TensorOperands:
    """One copy on the device of what tensor cores read; `a` is float32, as it comes."""

    def __init__(self, layer: Layer, products: TensorProducts) -> None:
        (rows, depth), device = layer.a.shape[1:], cupy().asarray
        self.a, self.bias, self.gate = device(layer.a[0]), device(layer.bias), device(layer.gate)
        self.x = products.room(rows, depth).rows(rows)
        products.cast(self.a, self.x)
        self.weights = products.packed(layer.b[0].T[:, :, None])


class Program(Protocol):
    """A way to compute a product, with its operands in place; a call enqueues it."""

    @property
    def tile(self) -> TensorTile | None:
        """The tile that it takes, if it has any."""
        ...

    @property
    def y(self) -> Values:
        """Where the result lies."""
        ...

    def __call__(self) -> None:
        """Enqueue it."""
        ...

    def poison(self) -> None:
        """Make NaN of all that it writes."""
        ...

    def right(self, layer: Layer) -> Doubles:
        """The layer's `rows` of the result, in float64."""
        ...


@dataclass(frozen=True)
class Plain:
    """y = x times the weights, plus the bias, and ReLU if asked: of rows as they lie."""

    run: Runner
    tile: TensorTile
    of: TensorOperands
    y: Values
    relu: bool = False

    def __call__(self) -> None:
        """Enqueue it."""
        of, y = self.of, self.y
        arrays = (of.x.array, of.weights, of.bias, y.array)
        tensor_gemm(self.run, *arrays, tile=self.tile, output=y.output, relu=self.relu)

    def poison(self) -> None:
        """Make NaN of the result."""
        poison(self.y.array)

    def right(self, layer: Layer) -> Doubles:
        """The sums, or what ReLU leaves of them."""
        sums: Doubles = layer.exact()[0] + layer.bias
        return sums.clip(min=0.0) if self.relu else sums


@dataclass(frozen=True)
class Experts(Plain):
    """y = the sums of each EXPERTS columns, weighted by the gate."""

    def __call__(self) -> None:
        """Enqueue it."""
        of, y = self.of, self.y
        arrays = (of.x.array, of.gate, of.weights, of.bias, y.array)
        tensor_experts(self.run, *arrays, tile=self.tile, output=y.output, relu=self.relu)

    def right(self, layer: Layer) -> Doubles:
        """The weighted sums."""
        each = super().right(layer).reshape(len(layer.rows), -1, EXPERTS)
        weighted: Doubles = np.einsum("rhe,re->rh", each, layer.gate[layer.rows].astype(np.float64))
        return weighted


@dataclass(frozen=True)
class Packed(Plain):
    """The plain product of rows that are packed like the weights: by others before, or by every call."""

    rows: Any = None
    cast: bool = False

    def pack(self) -> None:
        """Round the rows and pack them."""
        cast_packed(self.run, self.of.a, self.rows, self.of.x.output)

    def __call__(self) -> None:
        """Enqueue it."""
        of, y = self.of, self.y
        if self.cast:
            self.pack()
        tensor_packed(self.run, self.rows, of.weights, of.bias, y.array, tile=self.tile, output=y.output)

    def poison(self) -> None:
        """Make NaN of the result, and of the packed rows if they are made by the call."""
        super().poison()
        if self.cast:
            poison(self.rows)


class Cublas:
    """The product alone, by cuBLAS, of matrices as it takes them."""

    tile = None

    def __init__(self, layer: Layer, precision: str) -> None:
        (rows, _), columns, output = layer.a.shape[1:], layer.b.shape[2], _CUBLAS[precision]
        self._a, self._b = (cupy().asarray(each[0].astype(DTYPES[output])) for each in (layer.a, layer.b))
        self.y = Values(empty(rows, columns, dtype=DTYPES[output]), columns, output)
        self._tf32 = precision == "tf32"

    def __call__(self) -> None:
        """Enqueue it."""
        with tf32() if self._tf32 else nullcontext():
            cupy().matmul(self._a, self._b, out=self.y.array)

    def poison(self) -> None:
        """Make NaN of the result."""
        poison(self.y.array)

    def right(self, layer: Layer) -> Doubles:
        """The product."""
        exact: Doubles = layer.exact()[0]
        return exact


class _Suite:
    """The programs on one device, in one precision."""

    def __init__(self, gpu: DeviceFacts, precision: str, repeats: int, tell: Callable[[str], None]) -> None:
        self._gpu, self._precision, self._repeats, self._tell = gpu, precision, repeats, tell
        self._launch = Launcher(gpu)
        kernels = ("wgmma", "mma") if gpu.capability == HOPPER else ("mma",)
        self._tiles = {kernel: TensorTiles(kernel, gpu) for kernel in kernels}
        self._products = TensorProducts(precision, self._tiles[kernels[0]], self._launch)
        operands = self._products.operands
        self._width = math.prod(halves(operands.stored)) * np.dtype(operands.dtype).itemsize
        self._cublas = precision in _CUBLAS and find_cublas(tell)

    def rows(self, product: Product) -> list[GemmRow]:
        """A row for each program."""
        self._tell(f"{product}")
        layer = Layer(product, self._gpu.l2, self._width)
        copies = [self._programs(product, layer) for _ in range(layer.count)]
        programs = {name: [copy[name] for copy in copies] for name in copies[0]}
        errors = [
            max(self._error(f"{name} at {product}", program, layer) for program in each)
            for name, each in programs.items()
        ]
        timings = times_in_turns([*programs.values()], self._repeats)
        rows = []
        for (name, each), timing, error in zip(programs.items(), timings, errors, strict=True):
            tile = each[0].tile
            shown = None if tile is None else [*vars(tile).values()]
            rows.append(GemmRow(product, name, shown, len(each), timing, error, self._width))
        return beside_cublas(rows)

    def _programs(self, product: Product, layer: Layer) -> dict[str, Program]:
        """Whatever computes a product, on one copy of its operands."""
        rows, columns, operands = product.rows, product.columns, self._products.operands
        of, y = TensorOperands(layer, self._products), self._products.room(rows, columns).rows(rows)
        programs: dict[str, Program] = {}
        for kernel, tiles in self._tiles.items():
            tile = tiles.choose(rows, columns, operands)
            programs[kernel] = Plain(self._launch, tile, of, y)
            programs[f"{kernel}, ReLU"] = Plain(self._launch, tile, of, y, relu=True)
            if columns % EXPERTS == 0:
                weighted = self._products.room(rows, columns // EXPERTS).rows(rows)
                programs[f"{kernel}, experts"] = Experts(self._launch, tile, of, weighted)
        if "wgmma" in self._tiles:  # mma reads no packed rows
            tile = self._tiles["wgmma"].choose(rows, columns, operands, Source.PACKED)
            width = output_step(operands.stored)
            shape = (*halves(operands.stored), ceil_div(product.depth, width), packed_rows(rows), width)
            packed = Packed(self._launch, tile, of, y, rows=empty(*shape, dtype=operands.dtype))
            packed.pack()
            programs["wgmma, packed"] = packed
            programs["wgmma, cast and packed"] = replace(packed, cast=True)
        if self._cublas:
            programs[CUBLAS] = Cublas(layer, self._precision)
        return programs

    def _error(self, what: str, program: Program, layer: Layer) -> float:
        """The largest error of some rows against float64; AccelError if it is large or a value is missing."""
        program.poison()
        program()
        found = program.y.floats()  # all rows: to pick some on the device takes a kernel of CuPy's
        worst = compare(found[layer.rows], program.right(layer), TOLERANCE[self._precision])
        if not worst.passed or np.isnan(found).any():
            cause = str(worst) if not worst.passed else "it leaves values unwritten"
            raise AccelError(f"not timed, because {what} is wrong: {cause}")
        return worst.error
