"""BYTES tensors of the Open Inference Protocol's binary extension: before each text its length."""

from __future__ import annotations

from collections.abc import Iterable

from accel_cli.serve.refusals import malformed

_PREFIX = 4  # bytes


def split_bytes(data: bytes, count: int) -> list[bytes]:
    """The `count` texts that a tensor holds, exactly; a Refusal if it holds fewer, more or half of one."""
    texts = []
    place = 0
    for number in range(count):
        begin = place + _PREFIX
        place = begin + int.from_bytes(data[place:begin], "little")
        if place > len(data) or begin > len(data):
            raise malformed(f"the binary tensor ends within element {number} of {count}")
        texts.append(data[begin:place])
    if place != len(data):
        raise malformed(f"the binary tensor has {len(data) - place} bytes after its {count} elements")
    return texts


def joined_bytes(texts: Iterable[bytes]) -> bytes:
    """Texts as a tensor."""
    return b"".join(len(text).to_bytes(_PREFIX, "little") + text for text in texts)
