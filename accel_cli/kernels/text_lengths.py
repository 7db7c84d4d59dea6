"""Host twin of kernels_cu/text_lengths.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape, elementwise

THREADS = 256  # lines a block

KERNEL = Kernel(
    "text_lengths",
    (
        Array("text", "uint8"),
        Array("ends", "int32"),
        Array("found", "int32"),
        Array("counts", "int32", written=True),
        Array("offsets", "int32", written=True),
        Array("blocks", "int32", written=True),
        Array("truncated", "uint8", written=True),
        Array("blank", "uint8", written=True),
        Scalar("least", "int32"),
        Scalar("most", "int32"),
        Scalar("limit", "int32"),
        Scalar("room", "int32"),
    ),
)


def blocks_of(room: int) -> int:
    """The blocks of so many lines, and of the place behind them."""
    return ceil_div(room + 1, THREADS)


def geometry(room: int) -> Launch:
    """A thread a line, and one behind the last."""
    return elementwise(KERNEL, room + 1, THREADS)


def text_lengths(
    run: Runner,
    text: Any,
    ends: Any,
    found: Any,
    counts: Any,
    offsets: Any,
    blocks: Any,
    truncated: Any,
    blank: Any,
    sizes: tuple[int, int, int],
) -> None:
    """offsets [room + 1] = where each sentence begins among those of its block; blocks = tokens of each.

    `sizes` are the least and the most tokens of a sentence, and the bytes of a line that are looked at. ends
    and found [room] are those of text_ends. truncated and blank [room] are flags; counts has their sums.
    """
    (room,), (least, most, limit) = ends.shape, sizes
    check_shape("text_lengths found", found.shape, (room,))
    check_shape("text_lengths offsets", offsets.shape, (room + 1,))
    check_shape("text_lengths blocks", blocks.shape, (blocks_of(room),))
    check_shape("text_lengths truncated", truncated.shape, (room,))
    check_shape("text_lengths blank", blank.shape, (room,))
    arrays = (text, ends, found, counts, offsets, blocks, truncated, blank)
    run(geometry(room), *arrays, least, most, limit, room)
