"""Host twin of kernels_cu/text_marks.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape
from accel_cli.kernels.text_common import by_tiles, check_size

KERNEL = Kernel(
    "text_marks",
    (
        Array("text", "uint8"),
        Array("breaks", "uint32"),
        Array("starts", "uint32", written=True),
        Array("stops", "uint32", written=True),
        Array("tokens", "int32", written=True),
        Scalar("size", "int32"),
        Scalar("limit", "int32"),
    ),
)


def geometry(tiles: int) -> Launch:
    """A block a tile."""
    return by_tiles(KERNEL, tiles)


def text_marks(
    run: Runner, text: Any, size: int, breaks: Any, starts: Any, stops: Any, tokens: Any, limit: int
) -> None:
    """starts, stops, as breaks [tiles, THREADS] a bit a byte: where tokens start and where they have ended.

    Of each line of text [size] the first `limit` bytes are looked at. tokens [tiles] = how many start.
    """
    tiles = check_size("text_marks", text, size)
    check_shape("text_marks starts", starts.shape, breaks.shape)
    check_shape("text_marks stops", stops.shape, breaks.shape)
    check_shape("text_marks tokens", tokens.shape, (tiles,))
    if limit < 1:
        raise ValueError(f"text_marks: {limit} bytes of a line; look at 1 at least")
    run(geometry(tiles), text, breaks, starts, stops, tokens, size, limit)
