"""Host twin of kernels_cu/skinny.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 128
WIDEST = 16  # columns whose sums a lane keeps in registers

KERNEL = Kernel(
    "skinny",
    (
        Array("a", "float32"),
        Array("weight", "float32"),
        Array("bias", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("depth", "int32"),
    ),
)


def geometry(rows: int, outputs: int) -> Launch:
    """One warp a row of y [rows, outputs]."""
    defines = (("THREADS", THREADS), ("OUTPUTS", outputs))
    return Launch(KERNEL, defines, (ceil_div(rows, THREADS // 32), 1, 1), (THREADS, 1, 1))


def skinny(run: Runner, a: Any, weight: Any, bias: Any, y: Any) -> None:
    """y [M, N] = a [M, K] times weight [N, K] transposed, plus bias [N]; N is at most WIDEST."""
    (rows, depth), outputs = a.shape, weight.shape[0]
    if not 1 <= outputs <= WIDEST:
        raise ValueError(f"skinny: {outputs} columns, expected 1 to {WIDEST}")
    check_shape("skinny weight", weight.shape, (outputs, depth))
    check_shape("skinny bias", bias.shape, (outputs,))
    check_shape("skinny y", y.shape, (rows, outputs))
    run(geometry(rows, outputs), a, weight, bias, y, rows, depth)
