"""Host twin of kernels_cu/softmax.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "softmax",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
    ),
)


def geometry(rows: int) -> Launch:
    """One thread a row."""
    return elementwise(KERNEL, rows)


def softmax(run: Runner, x: Any, y: Any) -> None:
    """y = softmax over each row of x [rows, columns]; y may be x."""
    rows, columns = x.shape
    check_shape("softmax y", y.shape, (rows, columns))
    run(geometry(rows), x, y, rows, columns)
