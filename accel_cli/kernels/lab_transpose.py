"""Host twin of kernels_cu/lab_transpose.cu."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

TILE, ROWS = 32, 8

KERNEL = Kernel(
    "lab_transpose",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
        Scalar("rounds", "int32"),
    ),
)


class Layout(IntEnum):
    """How a tile lies in shared memory."""

    PLAIN = 0
    PADDED = 1
    SWIZZLED = 2

    def place(self, row: int, column: int) -> int:
        """Where a value of the tile lies."""
        pitch = TILE + 1 if self is Layout.PADDED else TILE
        return row * pitch + (column ^ row if self is Layout.SWIZZLED else column)


def variants() -> list[Launch]:
    """One launch for each layout."""
    return [geometry(1, 1, layout) for layout in Layout]


def geometry(rows: int, columns: int, layout: Layout) -> Launch:
    """A block for each tile; ROWS warps walk down it."""
    grid = (ceil_div(rows, TILE), ceil_div(columns, TILE), 1)
    defines = (("TILE", TILE), ("ROWS", ROWS), ("LAYOUT", int(layout)))
    return Launch(KERNEL, defines, grid, (TILE, ROWS, 1))


def lab_transpose(run: Runner, x: Any, y: Any, layout: Layout, rounds: int = 1) -> None:
    """y [columns, rows] = x [rows, columns] transposed; a tile is turned `rounds` times, an odd number."""
    rows, columns = x.shape
    check_shape("lab_transpose y", y.shape, (columns, rows))
    if rounds < 1 or rounds % 2 == 0:
        raise ValueError(f"lab_transpose: {rounds} rounds, expected an odd number")
    run(geometry(rows, columns, layout), x, y, rows, columns, rounds)
