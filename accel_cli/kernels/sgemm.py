"""Host twin of kernels_cu/sgemm.cu: fp32 matrix products and what follows in the epilogue."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.sgemm_tile import DEFAULT, USUAL, Tile

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
WEIGHED = (1, 2, 4)  # experts that the epilogue takes


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
    RESIDUAL = 3
    EXPERTS = 4
    EXPERTS_RELU = 5  # on tensor cores only


def variants() -> list[Launch]:
    """One launch for each source of rows, epilogue and bias that the functions below ask for.

    The other usual tiles come with a bias, and in convolutions.
    """
    stored = [
        geometry(1, 1, epilogue=e, bias=b) for e in (Epilogue.STORE, Epilogue.RELU) for b in (True, False)
    ]
    others = [geometry(1, 1, tile=tile) for tile in USUAL if tile != DEFAULT]
    pooled = [
        geometry(1, 1, 1, source, Epilogue.GETMAX, tile=tile)
        for tile in USUAL
        for source in (Rows.WINDOWS, Rows.IDS)
    ]
    experts = max(WEIGHED)
    weighed = geometry(1, experts, 1, Rows.MATRIX, Epilogue.EXPERTS, experts=experts)
    return [*stored, *others, *pooled, weighed, geometry(1, 1, epilogue=Epilogue.RESIDUAL)]


def kinds(tile: Tile, experts: int) -> list[Launch]:
    """One launch for each variant in which the engines take a tile, but for shortcuts, which are rare."""
    stored = ((Epilogue.STORE, True), (Epilogue.RELU, True), (Epilogue.STORE, False))
    pooled = (Rows.WINDOWS, Rows.IDS)
    return [
        *(geometry(1, 1, 1, source, Epilogue.GETMAX, tile=tile) for source in pooled),
        *(geometry(1, 1, epilogue=epilogue, bias=bias, tile=tile) for epilogue, bias in stored),
        geometry(1, experts, 1, Rows.MATRIX, Epilogue.EXPERTS, experts=experts, tile=tile),
    ]


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


def sgemm_residual(run: Runner, x: Any, packed: Any, bias: Any, y: Any, *, tile: Tile = DEFAULT) -> None:
    """y [M, N] = max(x [M, N] times packed [N, Npad] plus bias [N], 0) + x."""
    rows, columns = x.shape
    check_shape("sgemm_residual y", y.shape, (rows, columns))
    check_shape("sgemm_residual bias", bias.shape, (columns,))
    _check_packed(packed.shape, columns, columns)
    launch = geometry(rows, columns, epilogue=Epilogue.RESIDUAL, tile=tile)
    _launch(run, launch, (rows, columns, columns), a=x, packed=packed, y=y, bias=bias)


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
    if experts not in WEIGHED:
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
