"""Host twin of kernels_cu/lab_softmax.cu."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 256

KERNEL = Kernel(
    "lab_softmax",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
    ),
)


class Method(IntEnum):
    """How the powers are kept in range."""

    NAIVE = 0
    SAFE = 1
    ONLINE = 2

    @property
    def passes(self) -> int:
        """How often it goes over the matrix: x is read so often less one, y is written once."""
        return 4 if self is Method.SAFE else 3


def lanes(columns: int) -> int:
    """Threads of a row: the longer it is, the more."""
    return 4 if columns <= 16 else 32 if columns <= 1024 else THREADS


def variants() -> list[Launch]:
    """One launch for each method and number of lanes."""
    return [geometry(1, columns, method) for method in Method for columns in (4, 32, 4096)]


def geometry(rows: int, columns: int, method: Method) -> Launch:
    """A block for each THREADS / lanes rows."""
    each = lanes(columns)
    defines = (("METHOD", int(method)), ("LANES", each), ("THREADS", THREADS))
    return Launch(KERNEL, defines, (ceil_div(rows * each, THREADS), 1, 1), (THREADS, 1, 1))


def lab_softmax(run: Runner, x: Any, y: Any, method: Method) -> None:
    """y = softmax over each row of x [rows, columns]; NAIVE gives NaN where powers overflow."""
    rows, columns = x.shape
    check_shape("lab_softmax y", y.shape, (rows, columns))
    run(geometry(rows, columns, method), x, y, rows, columns)
