"""Host twin of kernels_cu/transpose.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.tensor_operands import DTYPES, Output, as_bytes, halves, low_of

TILE, ROWS = 32, 8

KERNEL = Kernel(
    "transpose",
    (
        Array("x", "float32"),
        Array("y", "uint8", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
        Scalar("pitch", "int32"),
        Scalar("y_low", "int64"),
    ),
)


def geometry(count: int, rows: int, columns: int, output: Output = Output.FP32) -> Launch:
    """A block for each matrix and tile; ROWS rows of threads walk down a tile."""
    grid = (count, ceil_div(rows, TILE), ceil_div(columns, TILE))
    defines = (("TILE", TILE), ("ROWS", ROWS), ("OUTPUT", int(output)))
    return Launch(KERNEL, defines, grid, (TILE, ROWS, 1))


def transpose(run: Runner, x: Any, y: Any, output: Output = Output.FP32) -> None:
    """y [count, columns, pitch] = each matrix of x [count, rows, columns] transposed, rounded to `output`.

    With SPLIT y is [2, count, columns, pitch]. What lies behind the first `rows` of each row stays as it is.
    """
    (count, rows, columns), pitch = x.shape, y.shape[-1]
    check_shape("transpose y", y.shape, (*halves(output), count, columns, max(rows, pitch)))
    low = low_of(y, output == Output.SPLIT)
    written = as_bytes("transpose y", y, DTYPES[output])
    run(geometry(count, rows, columns, output), x, written, rows, columns, pitch, low)
