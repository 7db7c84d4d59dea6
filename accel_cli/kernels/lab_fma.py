"""Host twin of kernels_cu/lab_fma.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS, CHAINS = 256, 8

KERNEL = Kernel(
    "lab_fma",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("scale", "float32"),
        Scalar("shift", "float32"),
        Scalar("count", "int64"),
        Scalar("rounds", "int32"),
    ),
)


def geometry(count: int) -> Launch:
    """A thread a value."""
    defines = (("THREADS", THREADS), ("CHAINS", CHAINS))
    return Launch(KERNEL, defines, (ceil_div(count, THREADS), 1, 1), (THREADS, 1, 1))


def lab_fma(run: Runner, x: Any, y: Any, scale: float, shift: float, rounds: int) -> None:
    """y [count] = the sum of CHAINS values: x [count] + 0, 1, ..., each `rounds` times scaled and shifted."""
    (count,) = x.shape
    check_shape("lab_fma y", y.shape, (count,))
    run(geometry(count), x, y, scale, shift, count, rounds)
