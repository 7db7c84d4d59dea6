"""Texts with their marks in numpy, for the tests of the tokenizer's kernels."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable

import numpy as np

from accel_cli.kernels.text_common import TILE, tiles
from accel_cli.text.lines import line_chunks
from kernels.text_rule import Bits, marks

BYTES = [
    bytes([byte]) for byte in b"nt'srevldma .\r\xe2\x80\x99\xf0\x9f\x98\xc3"
]  # that the rule tells apart
PIECES = [
    *BYTES,
    b"\n",
    b"n't",
    b"'s",
    b"'ve",
    b"it's",
    b"\xe2\x80\x99",
    b"\xe2\x80\x94",
    b"\xf0\x9f\x98\x80",
    *(b"A1", b"n\xe2\x80\x99t", b"\xe2\x80\x99ve", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80"),
]


def soup(count: int, seed: int = 0) -> bytes:
    """So many pieces in a random order."""
    return b"".join(PIECES[i] for i in np.random.default_rng(seed).integers(0, len(PIECES), count))


def all_texts(units: Iterable[bytes], length: int) -> bytes:
    """Every text of so many units, a line each."""
    return b"".join(b"".join(text) + b"\n" for text in itertools.product(units, repeat=length))


def lines_of(text: bytes) -> list[bytes]:
    """As `accel run` reads them; what it does at the front of a file is not at issue."""
    return [line for lines in line_chunks(io.BytesIO(b"-\n" + text), 1 << 20, "") for line in lines][1:]


def bytes_of(text: bytes) -> np.ndarray:
    """With a byte behind them, since no device has arrays of nothing."""
    return np.frombuffer(text + b"a", np.uint8)


def breaks_of(text: bytes) -> Bits:
    """Where lines end: bool [tiles * TILE]."""
    breaks = np.zeros(tiles(len(text)) * TILE, bool)
    breaks[: len(text)] = np.frombuffer(text, np.uint8) == ord("\n")
    breaks[len(text)] = text[-1:] not in (b"", b"\n")
    return breaks


def marks_of(text: bytes, limit: int) -> tuple[Bits, Bits]:
    """Where tokens start and stop, if of each line `limit` bytes are looked at: bool [tiles * TILE]."""
    seen = b"\n".join(line[:limit].ljust(len(line), b"\n") for line in text.split(b"\n"))
    return marks(seen.ljust(tiles(len(text)) * TILE, b"\n"))


def words_of(bits: Bits) -> np.ndarray:
    """uint32 [tiles, THREADS]"""
    return np.packbits(bits, bitorder="little").view(np.uint32).reshape(-1, TILE // 32)


def by_tile(bits: Bits) -> np.ndarray:
    """How many are set in each tile: int32 [tiles]"""
    return bits.reshape(-1, TILE).sum(axis=1).astype(np.int32)


def before(counts: np.ndarray) -> np.ndarray:
    """The sums of those before each."""
    return (np.cumsum(counts) - counts).astype(np.int32)
