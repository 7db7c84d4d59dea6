"""BYTES tensors of the Open Inference Protocol's binary extension: before each text its length."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from accel_cli.batches import TextBatch
from accel_cli.serve.refusals import malformed

_SIZE = struct.Struct("<I")
_WIDTH = _SIZE.size
_END = int.from_bytes(b"   \n", "little")  # of a line, as wide as a length


def read_bytes(data: bytes, count: int, looked_at: int) -> TextBatch:
    """The `count` texts, at least one, that a tensor holds, each as a line; what ends lines becomes a space.

    A line may have three spaces more than its text, within the `looked_at` first bytes, where they say
    nothing. Raises Refusal if the tensor holds fewer texts, more or half of one.
    """
    begins = _guessed(data, count, looked_at - (_WIDTH - 1))
    if begins is None:
        return TextBatch.of(_walked(data, count))
    text = bytearray(data.replace(b"\n", b" ").replace(b"\r", b" "))
    _fours(text)[begins] = _END  # where a text's length was, the line before it ends
    return TextBatch(b"".join((memoryview(text)[_WIDTH:], b"\n")), count)


def joined_bytes(texts: Iterable[bytes]) -> bytes:
    """Texts as a tensor."""
    return b"".join(_SIZE.pack(len(text)) + text for text in texts)


def _guessed(data: bytes, count: int, longest: int) -> npt.NDArray[np.int64] | None:
    """Where each length begins, without a walk from one to the next; None if it takes one, or one is beyond
    `longest`.

    The upper half of a usual length is two zeros, which usual text has nowhere. If every length found so
    leads to the next one, and the last to the end, then these are the lengths, whatever the texts hold.
    """
    zero = np.frombuffer(data, np.uint8) == 0
    pairs = zero[2:-1] & zero[3:]
    pairs[:-1] &= ~zero[4:]  # of more zeros, the last two
    begins = np.flatnonzero(pairs)
    if len(begins) != count or begins[0] != 0:
        return None
    sizes = _fours(data)[begins]
    ends = begins + _WIDTH + sizes
    leads = ends[-1] == len(data) and np.array_equal(ends[:-1], begins[1:])
    return begins if leads and sizes.max() <= longest else None


def _fours(data: bytes | bytearray) -> npt.NDArray[np.uint32]:
    """Every four bytes as a number, wherever they begin."""
    found: npt.NDArray[np.uint32] = np.ndarray(len(data) - (_WIDTH - 1), "<u4", data, strides=1)
    return found


def _walked(data: bytes, count: int) -> list[bytes]:
    """The texts, from one to the next. Raises Refusal."""
    texts: list[bytes] = []
    place, unpack = 0, _SIZE.unpack_from
    with suppress(struct.error):  # there is no whole length any more
        for _ in range(count):
            (size,) = unpack(data, place)
            begin = place + _WIDTH
            place = begin + size
            texts.append(data[begin:place])
    beyond = place > len(data)
    if beyond or len(texts) < count:
        raise malformed(f"the binary tensor ends within element {len(texts) - beyond} of {count}")
    if place != len(data):
        raise malformed(f"the binary tensor has {len(data) - place} bytes after its {count} elements")
    return texts
