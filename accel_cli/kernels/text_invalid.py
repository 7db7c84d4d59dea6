"""Host twin of kernels_cu/text_invalid.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar
from accel_cli.kernels.text_common import by_tiles, check_size

KERNEL = Kernel(
    "text_invalid",
    (Array("text", "uint8"), Array("counts", "int32", written=True), Scalar("size", "int32")),
)


def geometry(tiles: int) -> Launch:
    """A block a tile."""
    return by_tiles(KERNEL, tiles)


def text_invalid(run: Runner, text: Any, size: int, counts: Any) -> None:
    """Add to counts[INVALID] the bytes of text [size] that are no part of well-formed UTF-8."""
    run(geometry(check_size("text_invalid", text, size)), text, counts, size)
