"""Host twin of kernels_cu/sgemm.cu: fp32 matrix products, their tiles, and what follows in the epilogue."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

KERNEL = Kernel(
    "sgemm",
    (
        Array("a", "float32"),
        Array("starts", "int32"),
        Array("ids", "int32"),
        Array("packed", "float32"),
        Array("bias", "float32"),
        Array("gate", "float32"),
        Array("owners", "int32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
        Scalar("depth", "int32"),
        Scalar("packed_row", "int32"),
        Scalar("stride", "int32"),
        Scalar("column", "int32"),
        Scalar("dimension", "int32"),
        Scalar("a_step", "int64"),
        Scalar("packed_step", "int64"),
        Scalar("y_step", "int64"),
    ),
)


class Rows(IntEnum):
    """Where the rows of A come from."""

    MATRIX = 0
    WINDOWS = 1
    IDS = 2


class Epilogue(IntEnum):
    """What becomes of the sums."""

    STORE = 0
    RELU = 1
    GETMAX = 2
    EXPERTS = 3


@dataclass(frozen=True)
class Tile:
    """What a block and a thread of it make, the step along k, and how many steps are held at once."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    stages: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 4 * self.stages * self.depth * (self.rows + 4 + self.columns)

    def legal(self, shared_limit: int) -> bool:
        """Whether the kernel takes it, on a device that gives a block so many bytes of shared memory."""
        down = 4 if self.thread_rows > self.thread_columns else 8  # a warp is 8 x 4 threads, or 4 x 8
        quads = self.columns // 4
        return (
            self.rows % (down * self.thread_rows) == 0
            and self.columns % (32 // down * self.thread_columns) == 0
            and 64 <= self.threads <= 512
            and self.rows % (self.threads // 8) == 0
            and self.threads % quads == 0
            and self.depth % (self.threads // quads) == 0
            and self.depth % 8 == 0
            and self.stages >= 2
            and self._registers <= 255
            and 512 // self._registers * 128 >= self.threads
            and self.shared_bytes <= shared_limit
        )

    @property
    def _registers(self) -> int:
        """About what a thread takes, as the kernel estimates it: sums, two sets of operands, addresses."""
        operands = 2 * (self.thread_rows + self.thread_columns)
        rows = self.rows // (self.threads // 8)
        return max(72, self.thread_rows * self.thread_columns + operands + rows + 28)


DEFAULT = Tile(128, 128, 8, 16, 8, 3)
SMALL = Tile(64, 64, 16, 8, 8, 3)  # for products with too few tiles of 128 for all processors

_BLOCKS = ((128, 128), (128, 256), (256, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64))
_THREADS = ((8, 16), (16, 8), (8, 8), (4, 8), (8, 4), (4, 4))


def shared_limit(capability: tuple[int, int]) -> int:
    """The bytes of shared memory that a block may have on a device of this compute capability."""
    kibibytes = {(8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227, (10, 3): 227}
    return kibibytes.get(capability, 99) << 10


def candidates(capability: tuple[int, int]) -> list[Tile]:
    """All legal tiles for a device, large ones first: what tuning chooses from."""
    tiles = (
        Tile(*block, depth, *thread, stages)
        for block in _BLOCKS
        for thread in _THREADS
        for depth in (16, 8, 32)
        for stages in (3, 4, 2, 5)
    )
    return [tile for tile in tiles if tile.legal(shared_limit(capability))]


def pack(weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """weight [N, K] as the kernel reads it: [K, N rounded up to a multiple of 4], the rest zeros."""
    outputs, inputs = weight.shape
    packed = np.zeros((inputs, ceil_div(outputs, 4) * 4), np.float32)
    packed[:, :outputs] = weight.T
    return packed


def variants() -> list[Launch]:
    """One launch for each source of rows, epilogue and bias that the functions below ask for."""
    stored = [
        geometry(1, 1, epilogue=e, bias=b) for e in (Epilogue.STORE, Epilogue.RELU) for b in (True, False)
    ]
    pooled = [geometry(1, 1, 1, source, Epilogue.GETMAX) for source in (Rows.WINDOWS, Rows.IDS)]
    return [*stored, *pooled, geometry(1, 4, 1, Rows.MATRIX, Epilogue.EXPERTS, experts=4)]


def geometry(
    rows: int,
    columns: int,
    batch: int = 1,
    source: Rows = Rows.MATRIX,
    epilogue: Epilogue = Epilogue.STORE,
    bias: bool = True,
    experts: int = 1,
    tile: Tile = DEFAULT,
) -> Launch:
    """A block for each tile of [rows, columns], in the kernel's own order; z is the batch."""
    defines = (
        *zip(("BM", "BN", "BK"), (tile.rows, tile.columns, tile.depth), strict=True),
        *zip(("TM", "TN", "STAGES"), (tile.thread_rows, tile.thread_columns, tile.stages), strict=True),
        *(("ROWS", int(source)), ("EPILOGUE", int(epilogue)), ("BIAS", int(bias)), ("EXPERTS", experts)),
    )
    grid = (ceil_div(rows, tile.rows) * ceil_div(columns, tile.columns), 1, batch)
    return Launch(KERNEL, defines, grid, (tile.threads, 1, 1), tile.shared_bytes)


def sgemm(
    run: Runner,
    a: Any,
    packed: Any,
    bias: Any | None,
    y: Any,
    *,
    column: int = 0,
    relu: bool = False,
    tile: Tile = DEFAULT,
) -> None:
    """y [M, stride] from `column` on = a [M, K] times packed [K, Npad], plus bias [N], and ReLU if asked.

    Without a bias N is all of y's row from `column` on.
    """
    (rows, depth), stride = a.shape, y.shape[1]
    columns = stride - column if bias is None else bias.shape[0]
    check_shape("sgemm y", y.shape, (rows, max(stride, column + columns)))
    _check_packed(packed.shape, depth, columns)
    epilogue = Epilogue.RELU if relu else Epilogue.STORE
    launch = geometry(rows, columns, 1, Rows.MATRIX, epilogue, bias is not None, 1, tile)
    _launch(run, launch, (rows, columns, depth), a=a, packed=packed, y=y, bias=bias, column=column)


def sgemm_batched(run: Runner, a: Any, packed: Any, y: Any, *, tile: Tile = DEFAULT) -> None:
    """y [P, M, N] = a [P, M, K] times packed [P, K, Npad], P products of one shape."""
    (batch, rows, depth), columns = a.shape, y.shape[2]
    check_shape("sgemm_batched y", y.shape, (batch, rows, columns))
    check_shape("sgemm_batched packed", packed.shape, (batch, *packed.shape[1:]))
    _check_packed(packed.shape[1:], depth, columns)
    launch = geometry(rows, columns, batch, bias=False, tile=tile)
    _launch(run, launch, (rows, columns, depth), a=a, packed=packed, y=y)


def sgemm_windows(
    run: Runner,
    x: Any,
    starts: Any,
    owners: Any,
    packed: Any,
    bias: Any,
    features: Any,
    column: int,
    *,
    tile: Tile = DEFAULT,
) -> None:
    """A convolution, ReLU and the maximum over time: features [sentences, F] from `column` on.

    Window m is the K floats of x [tokens, D] from token starts[m] on, and belongs to sentence owners[m].
    Both ascend. `features` hold zeros before, or what the maximum shall not fall below.
    """
    (windows,), (depth, _), (columns,) = starts.shape, packed.shape, bias.shape
    _check_convolution("sgemm_windows", windows, x.shape[1], owners, packed, bias, features, column)
    if windows == 0:
        return
    launch = geometry(windows, columns, 1, Rows.WINDOWS, Epilogue.GETMAX, tile=tile)
    arrays = {"a": x, "packed": packed, "y": features, "bias": bias, "starts": starts, "owners": owners}
    _launch(run, launch, (windows, columns, depth), **arrays, column=column, dimension=x.shape[1])


def sgemm_ids(
    run: Runner,
    ids: Any,
    table: Any,
    starts: Any,
    owners: Any,
    packed: Any,
    bias: Any,
    features: Any,
    column: int,
    *,
    tile: Tile = DEFAULT,
) -> None:
    """The same with x = table [V, D] at ids [tokens], which is stored nowhere.

    D is a multiple of tile.depth; the table has less than 2^31 values.
    """
    (windows,), (depth, _), (columns,) = starts.shape, packed.shape, bias.shape
    dimension = table.shape[1]
    _check_convolution("sgemm_ids", windows, dimension, owners, packed, bias, features, column)
    if table.size >= 2**31:
        raise ValueError(f"sgemm_ids: a table {table.shape} of 2^31 values or more")
    if dimension % tile.depth:
        raise ValueError(f"sgemm_ids: the dimension {dimension} is no multiple of the tile's {tile.depth}")
    if windows == 0:
        return
    launch = geometry(windows, columns, 1, Rows.IDS, Epilogue.GETMAX, tile=tile)
    arrays = {"a": table, "packed": packed, "y": features, "bias": bias, "starts": starts, "owners": owners}
    _launch(run, launch, (windows, columns, depth), **arrays, ids=ids, column=column, dimension=dimension)


def sgemm_experts(
    run: Runner, h: Any, gate: Any, packed: Any, bias: Any, y: Any, *, tile: Tile = DEFAULT
) -> None:
    """y [M, H] = the experts' outputs for h [M, K], weighted with gate [M, E]; E is 1, 2 or 4.

    Column hidden * E + expert of packed [K, H * E padded] and of bias [H * E] is that of an expert's output.
    """
    (rows, depth), (_, hidden), experts = h.shape, y.shape, gate.shape[1]
    if experts not in (1, 2, 4):
        raise ValueError(f"sgemm_experts: {experts} experts, expected 1, 2 or 4 (pad with experts of zeros)")
    check_shape("sgemm_experts gate", gate.shape, (rows, experts))
    check_shape("sgemm_experts y", y.shape, (rows, hidden))
    check_shape("sgemm_experts bias", bias.shape, (hidden * experts,))
    _check_packed(packed.shape, depth, hidden * experts)
    launch = geometry(rows, hidden * experts, 1, Rows.MATRIX, Epilogue.EXPERTS, True, experts, tile)
    _launch(run, launch, (rows, hidden * experts, depth), a=h, packed=packed, y=y, bias=bias, gate=gate)


def _launch(
    run: Runner,
    launch: Launch,
    sizes: tuple[int, int, int],
    *,
    a: Any,
    packed: Any,
    y: Any,
    bias: Any | None = None,
    gate: Any | None = None,
    starts: Any | None = None,
    ids: Any | None = None,
    owners: Any | None = None,
    column: int = 0,
    dimension: int = 0,
) -> None:
    """Run it; in the place of an array that this variant does not read, `a` is passed once more."""
    starts, ids, owners = (a.view(np.int32) if array is None else array for array in (starts, ids, owners))
    bias, gate = (a if array is None else array for array in (bias, gate))
    steps = (array[0].size if array.ndim == 3 else 0 for array in (a, packed, y))
    arrays = (a, starts, ids, packed, bias, gate, owners, y)
    run(launch, *arrays, *sizes, packed.shape[-1], y.shape[-1], column, dimension, *steps)


def _check_packed(shape: tuple[int, ...], depth: int, columns: int) -> None:
    check_shape("sgemm packed", shape, (depth, ceil_div(columns, 4) * 4))


def _check_convolution(
    what: str, windows: int, dimension: int, owners: Any, packed: Any, bias: Any, features: Any, column: int
) -> None:
    (columns,), width = bias.shape, packed.shape[0] // dimension
    check_shape(f"{what} owners", owners.shape, (windows,))
    check_shape(
        f"{what} features", features.shape, (features.shape[0], max(features.shape[1], column + columns))
    )
    _check_packed(packed.shape, width * dimension, columns)
