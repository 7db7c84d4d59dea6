"""What the twins of the kernels for text share: tiles of text, and the counts of a chunk."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from accel_cli.kernels.base import Kernel, Launch

THREADS = 128
TILE = 32 * THREADS  # bytes that a block takes
MOST_BYTES = (1 << 31) - 4 * TILE  # places are int32, also those a little behind the last tile


class Count(IntEnum):
    """What is counted of a chunk: places in an int32 array on the device."""

    LINES = 0
    FOUND = 1  # tokens in the bytes looked at
    TOKENS = 2  # tokens of all sentences, cut and padded
    TRUNCATED = 3
    BLANK = 4
    INVALID = 5  # bytes that are not UTF-8
    BROKEN = 6  # sentences with logits that are not finite
    ROWS = 7  # bytes of the rows of all sentences


def tiles(size: int) -> int:
    """The tiles of a text; the place behind its last byte is in one as well."""
    return size // TILE + 1


def by_tiles(kernel: Kernel, count: int) -> Launch:
    """A block for each tile."""
    return Launch(kernel, (("THREADS", THREADS),), (count, 1, 1), (THREADS, 1, 1))


def check_size(what: str, text: Any, size: int) -> int:
    """The tiles of the first `size` bytes of `text`, or ValueError."""
    if not 0 <= size <= min(len(text), MOST_BYTES):
        raise ValueError(f"{what}: {size} bytes; there are {len(text)}, and {MOST_BYTES} can be taken")
    return tiles(size)
