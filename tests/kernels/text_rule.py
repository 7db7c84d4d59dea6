"""docs/tokenizer.md without a scan: what is decided of a byte by the few around it, for all bytes at once.

This is kernels_cu/text_rule.cuh on integers of any length: bit i of a mask is about byte i. `m >> k` says of
each byte what holds of the one k behind it, `m << k` of the one k before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Bits = np.ndarray


def _mask(text: np.ndarray, members: Iterable[int]) -> int:
    table = np.zeros(256, bool)
    table[list(members)] = True
    return int.from_bytes(np.packbits(table[text], bitorder="little").tobytes(), "little")


def bits(mask: int, count: int) -> Bits:
    """A mask as bool [count]."""
    packed = (mask & (1 << count) - 1).to_bytes(-(-count // 8), "little")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count, bitorder="little").astype(bool)


def _letters(text: np.ndarray, which: bytes) -> int:
    return _mask(text, which.lower() + which.upper())


def marks(text: bytes) -> tuple[Bits, Bits]:
    """Where a token starts, and where one that is under way has ended: at a start and at each separator."""
    data = np.frombuffer(text, np.uint8)
    alnum = _mask(data, b"0123456789") | _letters(data, b"abcdefghijklmnopqrstuvwxyz")
    high, tail = _mask(data, range(0x80, 0x100)), _mask(data, range(0x80, 0xC0))
    quote = _mask(data, b"'")
    sign = _mask(data, range(0x21, 0x7F)) & ~alnum & ~quote

    e2 = _mask(data, [0xE2])
    curly = e2 & _mask(data, [0x80]) >> 1 & _mask(data, [0x99]) >> 2
    three = e2 & tail >> 1 & tail >> 2 & ~curly
    four = (
        _mask(data, [0xF0]) & _mask(data, range(0x90, 0xC0)) >> 1
        | _mask(data, [0xF1, 0xF2, 0xF3]) & tail >> 1
        | _mask(data, [0xF4]) & _mask(data, range(0x80, 0x90)) >> 1
    )
    four &= tail >> 2 & tail >> 3
    triple = three | curly | four
    word = (alnum | high) & ~(triple | triple << 1 | triple << 2 | four << 3)

    # An apostrophe stands at its last byte, so that what follows is one further.
    curled = curly << 2
    apostrophe = quote | curled
    t = _letters(data, b"t") & ~(word >> 1)
    n_t = apostrophe & t >> 1
    split = _letters(data, b"n") & ((n_t & quote) >> 1 | (n_t & curled) >> 3)
    follows = word & ~split

    one = _letters(data, b"sdm") & ~(follows >> 1)
    e, l = _letters(data, b"e"), _letters(data, b"l")  # noqa: E741 - the letter
    two = (e & _letters(data, b"rv") << 1 | l & l << 1) & ~(follows >> 1)
    suffix = apostrophe & (one >> 1 | two >> 2)
    ended = suffix << 1 & one | suffix << 2 & two  # the last byte of a suffix

    before = word & ~ended
    joins = apostrophe & ~suffix & follows >> 1 & (quote & before << 1 | curled & before << 3)
    alone = apostrophe & ~joins
    starts = split | word & ~((word | suffix | joins) << 1) | alone & quote | (alone & curled) >> 2
    starts |= sign | three | four
    stops = starts | ~(alnum | high | quote | sign)
    return bits(starts, len(text)), bits(stops, len(text))


def split(text: bytes) -> list[bytes]:
    """The tokens of a text by its marks."""
    starts, stops = marks(text + b"\n")
    ends = np.flatnonzero(stops)
    begins = np.flatnonzero(starts)
    ends = ends[np.searchsorted(ends, begins, side="right")]
    return [text[a:b].lower().replace(b"\xe2\x80\x99", b"'") for a, b in zip(begins, ends, strict=True)]
