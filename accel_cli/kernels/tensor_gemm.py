"""Matrix products on tensor cores, by whichever kernel the tile is one of: mma_gemm or wgmma_gemm.

Operands are padded with zeros along k: see tensor_operands.py. Arrays of split operands, and y if it is
split, have an axis of 2 in front: high, low.
"""

from __future__ import annotations

import math
from typing import Any

from accel_cli.kernels.base import Launch, Runner, check_shape
from accel_cli.kernels.sgemm import WEIGHED, Epilogue
from accel_cli.kernels.tensor_operands import (
    DTYPES,
    Output,
    Packed,
    as_bytes,
    halves,
    low_of,
    packed_rows,
    padded,
    step,
)
from accel_cli.kernels.tensor_tile import Source, TensorTile, geometry


def tensor_gemm(
    run: Runner,
    a: Any,
    packed: Packed,
    bias: Any | None,
    y: Any,
    *,
    tile: TensorTile,
    output: Output = Output.FP32,
    column: int = 0,
    relu: bool = False,
) -> None:
    """y [M, stride] from `column` on = a [M, K or more] times the weights, plus bias [N], ReLU if asked."""
    rows, a_row = a.shape[-2:]
    _check_rows("tensor_gemm a", a, packed, rows)
    _check_stored("tensor_gemm", y, output, rows, column, packed.columns, bias)
    launch = _plain(tile, packed, Source.MATRIX, rows, output, biased=bias is not None, relu=relu)
    _launch(run, launch, a, packed, y, output, rows, bias=bias, column=column, a_row=a_row)


def tensor_residual(
    run: Runner, x: Any, packed: Packed, bias: Any, y: Any, *, tile: TensorTile, output: Output = Output.FP32
) -> None:
    """y [M, N or more] = max(x [M, N or more] times the weights, plus bias [N], 0) + x."""
    (rows, x_row), operands, columns = x.shape[-2:], packed.operands, packed.columns
    _check_rows("tensor_residual x", x, packed, rows)
    _check_stored("tensor_residual", y, output, rows, 0, columns, bias)
    if packed.depth != padded(columns, operands.type):
        raise ValueError(f"tensor_residual: {columns} columns of weights for rows of {packed.depth}")
    sizes = (rows, columns, 1, Source.MATRIX, Epilogue.RESIDUAL, True, 1, output)
    launch = geometry(tile, operands, *sizes)
    _launch(run, launch, x, packed, y, output, rows, bias=bias, a_row=x_row)


def tensor_packed(
    run: Runner,
    a: Any,
    packed: Packed,
    bias: Any | None,
    y: Any,
    *,
    tile: TensorTile,
    output: Output = Output.FP32,
    column: int = 0,
    relu: bool = False,
) -> None:
    """The same with a packed like the weights: [steps, M up to a multiple of 8, values of 128 bytes]."""
    rows = y.shape[-2]
    _check_packed("tensor_packed a", a, packed, rows)
    _check_stored("tensor_packed", y, output, rows, column, packed.columns, bias)
    launch = _plain(tile, packed, Source.PACKED, rows, output, biased=bias is not None, relu=relu)
    _launch(run, launch, a, packed, y, output, rows, bias=bias, column=column)


def tensor_batched(
    run: Runner, a: Any, packed: Packed, y: Any, *, tile: TensorTile, output: Output = Output.FP32
) -> None:
    """y [P, M, N or more] = a [P, M, K or more] times a batch of P weights, P products of one shape."""
    batch, rows, a_row = a.shape[-3:]
    _check_rows("tensor_batched a", a, packed, batch, rows)
    stride = max(y.shape[-1], packed.columns)
    check_shape("tensor_batched y", y.shape, (*halves(output), batch, rows, stride))
    launch = geometry(tile, packed.operands, rows, packed.columns, batch, bias=False, output=output)
    steps = (rows * a_row, math.prod(packed.values.shape[-3:]), rows * stride)
    _launch(run, launch, a, packed, y, output, rows, a_row=a_row, steps=steps)


def tensor_windows(
    run: Runner,
    x: Any,
    starts: Any,
    owners: Any,
    packed: Packed,
    bias: Any,
    features: Any,
    column: int,
    *,
    tile: TensorTile,
) -> None:
    """A convolution, ReLU and the maximum over time: features [sentences, F] in fp32 from `column` on.

    Window m is the K values of x [tokens, D padded] from token starts[m] on, and belongs to sentence
    owners[m]. Both ascend. `features` hold zeros before, or what the maximum shall not fall below.
    """
    arrays = {"starts": starts, "owners": owners, "bias": bias}
    _convolve("tensor_windows", run, Source.WINDOWS, x, packed, features, column, tile, arrays)


def tensor_ids(
    run: Runner,
    ids: Any,
    table: Any,
    starts: Any,
    owners: Any,
    packed: Packed,
    bias: Any,
    features: Any,
    column: int,
    *,
    tile: TensorTile,
) -> None:
    """The same with x = table [V, D padded] at ids [tokens], which is stored nowhere.

    The table has less than 2^31 values.
    """
    if table.size >= 2**31:
        raise ValueError(f"tensor_ids: a table {table.shape} of 2^31 values or more")
    arrays = {"starts": starts, "owners": owners, "bias": bias, "ids": ids}
    _convolve("tensor_ids", run, Source.IDS, table, packed, features, column, tile, arrays)


def tensor_experts(
    run: Runner,
    h: Any,
    gate: Any,
    packed: Packed,
    bias: Any,
    y: Any,
    *,
    tile: TensorTile,
    output: Output = Output.FP32,
    relu: bool = False,
    source: Source = Source.MATRIX,
) -> None:
    """y [M, H or more] = the experts' outputs for h [M, K or more], weighted with gate [M, E].

    With Source.PACKED h is packed like the weights, as tensor_packed takes it. E is 1, 2 or 4. Output
    hidden * E + expert of the weights and of bias [H * E] is that of an expert. ReLU comes last, if asked.
    """
    (rows, experts), a_row = gate.shape, h.shape[-1]
    if experts not in WEIGHED or packed.columns % experts:
        raise ValueError(f"tensor_experts: {packed.columns} columns of {experts} experts, expected 1, 2 or 4")
    if source == Source.PACKED:
        _check_packed("tensor_experts h", h, packed, rows)
    else:
        _check_rows("tensor_experts h", h, packed, rows)
    _check_stored("tensor_experts", y, output, rows, 0, packed.columns // experts)
    check_shape("tensor_experts bias", bias.shape, (packed.columns,))
    epilogue = Epilogue.EXPERTS_RELU if relu else Epilogue.EXPERTS
    sizes = (rows, packed.columns, 1, source, epilogue, True, experts, output)
    launch = geometry(tile, packed.operands, *sizes)
    _launch(run, launch, h, packed, y, output, rows, bias=bias, gate=gate, a_row=a_row)


def _plain(
    tile: TensorTile, packed: Packed, source: Source, rows: int, output: Output, *, biased: bool, relu: bool
) -> Launch:
    epilogue = Epilogue.RELU if relu else Epilogue.STORE
    return geometry(tile, packed.operands, rows, packed.columns, 1, source, epilogue, biased, 1, output)


def _convolve(
    what: str,
    run: Runner,
    source: Source,
    x: Any,
    packed: Packed,
    features: Any,
    column: int,
    tile: TensorTile,
    arrays: dict[str, Any],
) -> None:
    (windows,), (tokens, dimension), operands = arrays["starts"].shape, x.shape[-2:], packed.operands
    check_shape(f"{what} x", x.shape, (*halves(operands.stored), tokens, dimension))
    check_shape(f"{what} owners", arrays["owners"].shape, (windows,))
    if dimension % step(operands.type) or packed.depth % dimension:
        raise ValueError(f"{what}: rows of {dimension} for weights of {packed.depth}, expected padded taps")
    _check_stored(what, features, Output.FP32, features.shape[0], column, packed.columns, arrays["bias"])
    if windows == 0:
        return
    launch = geometry(tile, operands, windows, packed.columns, 1, source, Epilogue.GETMAX)
    _launch(
        run, launch, x, packed, features, Output.FP32, windows, column=column, dimension=dimension, **arrays
    )


def _launch(
    run: Runner,
    launch: Launch,
    a: Any,
    packed: Packed,
    y: Any,
    output: Output,
    rows: int,
    *,
    bias: Any | None = None,
    gate: Any | None = None,
    starts: Any | None = None,
    ids: Any | None = None,
    owners: Any | None = None,
    column: int = 0,
    dimension: int = 0,
    a_row: int = 0,
    steps: tuple[int, int, int] = (0, 0, 0),
) -> None:
    """Run it; in the place of an array that this variant does not read, `a` is passed once more."""
    starts, ids, owners = (a.view("int32") if array is None else array for array in (starts, ids, owners))
    bias, gate = (a.view("float32") if array is None else array for array in (bias, gate))
    what, operands, weights = launch.kernel.name, packed.operands, packed.values
    a_bytes = as_bytes(f"{what} a", a, operands.dtype)
    packed_bytes = as_bytes(f"{what} packed", weights, operands.dtype)
    y_bytes = as_bytes(f"{what} y", y, DTYPES[output])
    arrays = (a_bytes, starts, ids, packed_bytes, bias, gate, owners, y_bytes)
    widths = (a_row, weights.shape[-2], y.shape[-1], column, dimension)
    sizes = (rows, packed.columns, packed.depth, *widths)
    split = (operands.split, operands.split, output == Output.SPLIT)
    lows = (low_of(array, two) for array, two in zip((a, weights, y), split, strict=True))
    run(launch, *arrays, *sizes, *lows, *steps, packed.scale)


def _check_packed(what: str, a: Any, packed: Packed, rows: int) -> None:
    """A is packed as the weights are, and has as many steps."""
    operands = packed.operands
    shape = (packed.values.shape[-3], packed_rows(rows), step(operands.type))
    check_shape(what, a.shape, (*halves(operands.stored), *shape))


def _check_rows(what: str, a: Any, packed: Packed, *rows: int) -> None:
    """A's rows hold the weights', and begin at multiples of 16 bytes; the weights have the same batch."""
    a_row = a.shape[-1]
    check_shape(what, a.shape, (*halves(packed.operands.stored), *rows, max(a_row, packed.depth)))
    if a_row % (step(packed.operands.type) // 8):
        raise ValueError(f"{what}: rows of {a_row} values, no multiple of 16 bytes")
    before = (*halves(packed.operands.stored), *rows[:-1])
    check_shape(f"{what}'s weights", packed.values.shape, (*before, *packed.values.shape[-3:]))


def _check_stored(
    what: str, y: Any, output: Output, rows: int, column: int, columns: int, bias: Any | None = None
) -> None:
    stride = max(y.shape[-1], column + columns)
    check_shape(f"{what} y", y.shape, (*halves(output), rows, stride))
    if bias is not None:
        check_shape(f"{what} bias", bias.shape, (columns,))
