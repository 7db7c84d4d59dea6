"""Host twin of kernels_cu/scale_add.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "scale_add",
    (
        Array("gate", "float32"),
        Array("y", "float32"),
        Array("m", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("experts", "int32"),
        Scalar("size", "int32"),
    ),
)


def geometry(rows: int, size: int) -> Launch:
    """One thread an element of m [rows, size]."""
    return elementwise(KERNEL, rows * size)


def scale_add(run: Runner, gate: Any, y: Any, m: Any) -> None:
    """m [rows, size] = the sum over the experts e of gate [rows, e] times y [e, rows, size]."""
    experts, rows, size = y.shape
    check_shape("scale_add gate", gate.shape, (rows, experts))
    check_shape("scale_add m", m.shape, (rows, size))
    run(geometry(rows, size), gate, y, m, rows, experts, size)
