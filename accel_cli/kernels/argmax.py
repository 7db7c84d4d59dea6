"""Host twin of kernels_cu/argmax.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "argmax",
    (
        Array("x", "float32"),
        Array("label", "int32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
    ),
)


def geometry(rows: int) -> Launch:
    """One thread a row."""
    return elementwise(KERNEL, rows)


def argmax(run: Runner, x: Any, label: Any) -> None:
    """label [rows] = the column of the largest value in each row of x [rows, columns]."""
    rows, columns = x.shape
    check_shape("argmax label", label.shape, (rows,))
    run(geometry(rows), x, label, rows, columns)
