"""Host twin of kernels_cu/toomcook_weights.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

FILTERS, CHANNELS, ROWS = 32, 16, 8

KERNEL = Kernel(
    "toomcook_weights",
    (
        Array("weight", "float32"),
        Array("matrix", "float64"),
        Array("u", "float32", written=True),
        Scalar("filters", "int32"),
        Scalar("dimension", "int32"),
        Scalar("products", "int32"),
        Scalar("pitch", "int32"),
        Scalar("column", "int32"),
    ),
)


def geometry(taps: int, filters: int, dimension: int) -> Launch:
    """A block for each tile of filters and channels; a row of threads transforms a channel at a time."""
    defines = (("TAPS", taps), ("FILTERS", FILTERS), ("CHANNELS", CHANNELS), ("ROWS", ROWS))
    grid = (ceil_div(filters, FILTERS), ceil_div(dimension, CHANNELS), 1)
    return Launch(KERNEL, defines, grid, (FILTERS, ROWS, 1))


def toomcook_weights(run: Runner, weight: Any, matrix: Any, u: Any, column: int) -> None:
    """u [products, dimension, pitch] from `column` on = matrix [products, taps] times each filter.

    weight [filters, dimension, taps] is a convolution's as the weights file has it, the matrix float64. Other
    columns are left as they are.
    """
    (filters, dimension, taps), products, pitch = weight.shape, matrix.shape[0], u.shape[-1]
    check_shape("toomcook_weights matrix", matrix.shape, (products, taps))
    check_shape("toomcook_weights u", u.shape, (products, dimension, pitch))
    if not 0 <= column <= pitch - filters:
        raise ValueError(f"toomcook_weights: {filters} filters at {column} do not fit into {pitch}")
    launch = geometry(taps, filters, dimension)
    run(launch, weight, matrix, u, filters, dimension, products, pitch, column)
