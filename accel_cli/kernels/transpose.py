"""Host twin of kernels_cu/transpose.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

TILE, ROWS = 32, 8

KERNEL = Kernel(
    "transpose",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
    ),
)


def geometry(count: int, rows: int, columns: int) -> Launch:
    """A block for each matrix and tile; ROWS rows of threads walk down a tile."""
    grid = (count, ceil_div(rows, TILE), ceil_div(columns, TILE))
    return Launch(KERNEL, (("TILE", TILE), ("ROWS", ROWS)), grid, (TILE, ROWS, 1))


def transpose(run: Runner, x: Any, y: Any) -> None:
    """y [count, columns, rows] = each matrix of x [count, rows, columns] transposed."""
    count, rows, columns = x.shape
    check_shape("transpose y", y.shape, (count, columns, rows))
    run(geometry(count, rows, columns), x, y, rows, columns)
