"""Host twin of kernels_cu/text_lines.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape
from accel_cli.kernels.text_common import THREADS, by_tiles, check_size

KERNEL = Kernel(
    "text_lines",
    (
        Array("text", "uint8"),
        Array("breaks", "uint32", written=True),
        Array("lines", "int32", written=True),
        Scalar("size", "int32"),
    ),
)


def geometry(tiles: int) -> Launch:
    """A block a tile."""
    return by_tiles(KERNEL, tiles)


def text_lines(run: Runner, text: Any, size: int, breaks: Any, lines: Any) -> None:
    """Of text [size]: breaks [tiles, THREADS], a bit a byte, where lines end; lines [tiles], how many do."""
    tiles = check_size("text_lines", text, size)
    check_shape("text_lines breaks", breaks.shape, (tiles, THREADS))
    check_shape("text_lines lines", lines.shape, (tiles,))
    run(geometry(tiles), text, breaks, lines, size)
