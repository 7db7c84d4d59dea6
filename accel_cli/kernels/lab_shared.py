"""Host twin of kernels_cu/lab_shared.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS, READS = 256, 32

KERNEL = Kernel(
    "lab_shared",
    (
        Array("x", "float32"),
        Array("y", "float32", written=True),
        Scalar("count", "int64"),
        Scalar("rounds", "int32"),
    ),
)


def geometry(count: int) -> Launch:
    """A thread a value."""
    defines = (("THREADS", THREADS), ("READS", READS))
    return Launch(KERNEL, defines, (ceil_div(count, THREADS), 1, 1), (THREADS, 1, 1))


def lab_shared(run: Runner, x: Any, y: Any, rounds: int) -> None:
    """y [count] = `rounds` times the sum of column i % 32 of x [READS, 32], read from shared memory."""
    (count,) = y.shape
    check_shape("lab_shared x", x.shape, (READS, 32))
    run(geometry(count), x, y, count, rounds)
