"""Host twin of kernels_cu/pack_taps.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

TILE, ROWS = 32, 8

KERNEL = Kernel(
    "pack_taps",
    (
        Array("weight", "float32"),
        Array("packed", "float32", written=True),
        Scalar("filters", "int32"),
        Scalar("dimension", "int32"),
        Scalar("taps", "int32"),
        Scalar("pitch", "int32"),
    ),
)


def geometry(depth: int, pitch: int) -> Launch:
    """A block for each tile of packed [depth, pitch]; ROWS rows of threads walk down a tile."""
    grid = (ceil_div(depth, TILE), ceil_div(pitch, TILE), 1)
    return Launch(KERNEL, (("TILE", TILE), ("ROWS", ROWS)), grid, (TILE, ROWS, 1))


def pack_taps(run: Runner, weight: Any, packed: Any) -> None:
    """packed [taps * dimension, filters up to a multiple of 4] = weight [filters, dimension, taps].

    Row j * dimension + d holds tap j of channel d, the columns beyond the filters zeros: as sgemm reads a
    convolution's weights, and with one tap those of a matrix product.
    """
    filters, dimension, taps = weight.shape
    depth, pitch = taps * dimension, ceil_div(filters, 4) * 4
    check_shape("pack_taps packed", packed.shape, (depth, pitch))
    run(geometry(depth, pitch), weight, packed, filters, dimension, taps, pitch)
