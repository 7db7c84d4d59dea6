"""Host twin of kernels_cu/lab_copy.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

ROWS, EACH = 8, 32  # warps of a block, values of a thread

KERNEL = Kernel(
    "lab_copy",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
    ),
)


@dataclass(frozen=True)
class Order:
    """Which values the lanes of a warp take: `stride` apart in a row, or one below the other."""

    name: str
    down: bool = False
    stride: int = 1

    def apart(self, columns: int) -> int:
        """How many values lie between those of neighbouring lanes, in a row of `columns`."""
        return columns if self.down else self.stride


ORDERS = (
    Order("x fastest"),
    Order("x, 2 apart", stride=2),
    Order("x, 8 apart", stride=8),
    Order("x, 32 apart", stride=32),
    Order("y fastest", down=True),
)


def variants() -> list[Launch]:
    """One launch for each order."""
    return [geometry(1, 1, order) for order in ORDERS]


def geometry(rows: int, columns: int, order: Order) -> Launch:
    """A block for each tile of ROWS x 1,024 values or, down a column, of 32 x 256."""
    height, width = (32, ROWS * EACH) if order.down else (ROWS, 32 * EACH)
    defines = (("ROWS", ROWS), ("ORDER", int(order.down)), ("STRIDE", order.stride))
    return Launch(KERNEL, defines, (ceil_div(rows, height), ceil_div(columns, width), 1), (32, ROWS, 1))


def lab_copy(run: Runner, x: Any, y: Any, order: Order) -> None:
    """y [rows, columns] = x [rows, columns], by threads in an order."""
    rows, columns = x.shape
    check_shape("lab_copy y", y.shape, (rows, columns))
    run(geometry(rows, columns, order), x, y, rows, columns)
