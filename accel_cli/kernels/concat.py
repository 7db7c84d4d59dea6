"""Host twin of kernels_cu/concat.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "concat",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
        Scalar("first", "int32"),
        Scalar("pitch", "int32"),
    ),
)


def geometry(rows: int, columns: int) -> Launch:
    """One thread an element of x [rows, columns]."""
    return elementwise(KERNEL, rows * columns)


def concat(run: Runner, x: Any, y: Any, first: int) -> None:
    """y [rows, pitch] at columns first .. = x [rows, columns]."""
    (rows, columns), pitch = x.shape, y.shape[1]
    check_shape("concat y", y.shape, (rows, pitch))
    if not 0 <= first <= pitch - columns:
        raise ValueError(f"concat: {columns} columns at {first} do not fit into {pitch}")
    run(geometry(rows, columns), x, y, rows, columns, first, pitch)
