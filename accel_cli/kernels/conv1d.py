"""Host twin of kernels_cu/conv1d.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 128

KERNEL = Kernel(
    "conv1d",
    (
        Array("x", "float32"),
        Array("weight", "float32"),
        Array("bias", "float32"),
        Array("offsets", "int32"),
        Array("y", "float32", written=True),
        Scalar("dimension", "int32"),
        Scalar("filters", "int32"),
        Scalar("width", "int32"),
        Scalar("token_stride", "int32"),
        Scalar("channel_stride", "int32"),
    ),
)


def geometry(sentences: int, filters: int) -> Launch:
    """A block for each sentence and tile of THREADS filters."""
    grid = (sentences, ceil_div(filters, THREADS), 1)
    return Launch(KERNEL, (("THREADS", THREADS),), grid, (THREADS, 1, 1))


def conv1d(
    run: Runner, x: Any, weight: Any, bias: Any, offsets: Any, y: Any, strides: tuple[int, int]
) -> None:
    """y [tokens, filters] = the windows of x through weight [filters, dimension, width], plus bias.

    `strides` are x's steps from token to token and from channel to channel, in floats.
    """
    filters, dimension, width = weight.shape
    check_shape("conv1d bias", bias.shape, (filters,))
    check_shape("conv1d y", y.shape, (x.size // dimension, filters))
    launch = geometry(len(offsets) - 1, filters)
    run(launch, x, weight, bias, offsets, y, dimension, filters, width, *strides)
