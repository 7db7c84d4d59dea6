"""Host twin of kernels_cu/linear.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "linear",
    (
        Array("x", "float32"),
        Array("weight", "float32"),
        Array("bias", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("inputs", "int32"),
        Scalar("outputs", "int32"),
    ),
)


def geometry(rows: int, outputs: int) -> Launch:
    """One thread an element of y [rows, outputs]."""
    return elementwise(KERNEL, rows * outputs)


def linear(run: Runner, x: Any, weight: Any, bias: Any, y: Any) -> None:
    """y [rows, outputs] = x [rows, inputs] times weight [outputs, inputs] transposed, plus bias."""
    (rows, inputs), outputs = x.shape, weight.shape[0]
    check_shape("linear weight", weight.shape, (outputs, inputs))
    check_shape("linear bias", bias.shape, (outputs,))
    check_shape("linear y", y.shape, (rows, outputs))
    run(geometry(rows, outputs), x, weight, bias, y, rows, inputs, outputs)
