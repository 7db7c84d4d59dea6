"""Host twin of kernels_cu/getmax.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 128

KERNEL = Kernel(
    "getmax",
    (
        Array("y", "float32"),
        Array("offsets", "int32"),
        Array("pooled", "float32", written=True),
        Scalar("filters", "int32"),
        Scalar("width", "int32"),
    ),
)


def geometry(sentences: int, filters: int) -> Launch:
    """A block for each sentence and tile of THREADS filters."""
    grid = (sentences, ceil_div(filters, THREADS), 1)
    return Launch(KERNEL, (("THREADS", THREADS),), grid, (THREADS, 1, 1))


def getmax(run: Runner, y: Any, offsets: Any, pooled: Any, width: int) -> None:
    """pooled [sentences, filters] = the largest of y [tokens, filters] over each sentence's windows."""
    sentences, filters = pooled.shape
    check_shape("getmax offsets", offsets.shape, (sentences + 1,))
    check_shape("getmax y", y.shape, (y.shape[0], filters))
    run(geometry(sentences, filters), y, offsets, pooled, filters, width)
