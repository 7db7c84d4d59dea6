"""Host twin of kernels_cu/im2col.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 256

KERNEL = Kernel(
    "im2col",
    (
        Array("x", "float32"),
        Array("starts", "int32"),
        Array("columns", "float32", written=True),
        Scalar("dimension", "int32"),
        Scalar("depth", "int32"),
    ),
)


def geometry(windows: int, dimension: int, depth: int) -> Launch:
    """A block for each window and part of it; four floats a thread where the dimension allows it."""
    vector = 1 if dimension % 4 else 4
    grid = (windows, ceil_div(depth, THREADS * vector), 1)
    return Launch(KERNEL, (("THREADS", THREADS), ("VECTOR", vector)), grid, (THREADS, 1, 1))


def im2col(run: Runner, x: Any, starts: Any, columns: Any) -> None:
    """columns [windows, width * dimension] = x [tokens, dimension] from token starts [windows] on.

    A row is a window's tokens one after the other; the weight that goes with it is [filters, width,
    dimension].
    """
    (windows, depth), dimension = columns.shape, x.shape[1]
    check_shape("im2col starts", starts.shape, (windows,))
    if depth % dimension:
        raise ValueError(f"im2col: {depth} columns are no whole tokens of {dimension}")
    run(geometry(windows, dimension, depth), x, starts, columns, dimension, depth)
