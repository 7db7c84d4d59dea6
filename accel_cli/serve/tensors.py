"""BYTES tensors of the Open Inference Protocol's binary extension: before each text its length."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress

from accel_cli.serve.refusals import malformed

_SIZE = struct.Struct("<I")


def split_bytes(data: bytes, count: int) -> list[bytes]:
    """The `count` texts that a tensor holds, exactly; a Refusal if it holds fewer, more or half of one."""
    texts: list[bytes] = []
    place, width = 0, _SIZE.size
    unpack, append = _SIZE.unpack_from, texts.append  # once: nothing else here is done for every text
    with suppress(struct.error):  # there is no whole length any more
        for _ in range(count):
            (size,) = unpack(data, place)
            begin = place + width
            place = begin + size
            append(data[begin:place])
    beyond = place > len(data)
    if beyond or len(texts) < count:
        raise malformed(f"the binary tensor ends within element {len(texts) - beyond} of {count}")
    if place != len(data):
        raise malformed(f"the binary tensor has {len(data) - place} bytes after its {count} elements")
    return texts


def joined_bytes(texts: Iterable[bytes]) -> bytes:
    """Texts as a tensor."""
    return b"".join(_SIZE.pack(len(text)) + text for text in texts)
