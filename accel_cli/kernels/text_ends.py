"""Host twin of kernels_cu/text_ends.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape
from accel_cli.kernels.text_common import by_tiles

KERNEL = Kernel(
    "text_ends",
    (
        Array("breaks", "uint32"),
        Array("starts", "uint32"),
        Array("lines", "int32"),
        Array("tokens", "int32"),
        Array("ends", "int32", written=True),
        Array("found", "int32", written=True),
        Scalar("room", "int32"),
    ),
)


def geometry(tiles: int) -> Launch:
    """A block a tile."""
    return by_tiles(KERNEL, tiles)


def text_ends(run: Runner, breaks: Any, starts: Any, lines: Any, tokens: Any, ends: Any, found: Any) -> None:
    """ends, found [room] = where each line ends, and the tokens of the text up to there.

    breaks and starts [tiles, THREADS] mark where lines end and tokens start; lines and tokens [tiles] count
    those before each tile.
    """
    (tiles,), (room,) = lines.shape, ends.shape
    check_shape("text_ends starts", starts.shape, breaks.shape)
    check_shape("text_ends tokens", tokens.shape, (tiles,))
    check_shape("text_ends found", found.shape, (room,))
    run(geometry(tiles), breaks, starts, lines, tokens, ends, found, room)
