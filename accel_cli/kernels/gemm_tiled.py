"""Host twin of kernels_cu/gemm_tiled.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

TILE = 32

KERNEL = Kernel(
    "gemm_tiled",
    (
        Array("a", "float32"),
        Array("weight", "float32"),
        Array("bias", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("inputs", "int32"),
        Scalar("outputs", "int32"),
    ),
)


def geometry(rows: int, outputs: int) -> Launch:
    """A block for each tile of y [rows, outputs], a thread an element."""
    grid = (ceil_div(rows, TILE), ceil_div(outputs, TILE), 1)
    return Launch(KERNEL, (("TILE", TILE),), grid, (TILE, TILE, 1))


def gemm_tiled(run: Runner, a: Any, weight: Any, bias: Any, y: Any) -> None:
    """y [rows, outputs] = a [rows, inputs] times weight [outputs, inputs] transposed, plus bias."""
    (rows, inputs), outputs = a.shape, weight.shape[0]
    check_shape("gemm_tiled weight", weight.shape, (outputs, inputs))
    check_shape("gemm_tiled bias", bias.shape, (outputs,))
    check_shape("gemm_tiled y", y.shape, (rows, outputs))
    run(geometry(rows, outputs), a, weight, bias, y, rows, inputs, outputs)
