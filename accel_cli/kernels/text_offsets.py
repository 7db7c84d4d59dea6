"""Host twin of kernels_cu/text_offsets.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise
from accel_cli.kernels.text_lengths import THREADS, blocks_of

KERNEL = Kernel(
    "text_offsets",
    (
        Array("found", "int32"),
        Array("counts", "int32"),
        Array("blocks", "int32"),
        Array("offsets", "int32", written=True),
        Array("ids", "int32", written=True),
        Scalar("least", "int32"),
        Scalar("pad", "int32"),
        Scalar("room", "int32"),
    ),
)


def geometry(room: int) -> Launch:
    """A thread a line, and one behind the last: the blocks of text_lengths."""
    return elementwise(KERNEL, room + 1, THREADS)


def text_offsets(
    run: Runner, found: Any, counts: Any, blocks: Any, offsets: Any, ids: Any, least: int, pad: int
) -> None:
    """offsets [room + 1] from within a block to among all sentences; blocks = tokens before each block.

    In ids, sentences of fewer than `least` tokens are filled up with `pad`. found [room] is of text_ends.
    """
    (room,) = found.shape
    check_shape("text_offsets offsets", offsets.shape, (room + 1,))
    check_shape("text_offsets blocks", blocks.shape, (blocks_of(room),))
    run(geometry(room), found, counts, blocks, offsets, ids, least, pad, room)
