"""A vocabulary as a hash table that a kernel searches: slots, and the bytes of all words end to end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from accel_cli.text.vocabulary import Vocabulary

_BASIS, _PRIME = 2166136261, 16777619  # FNV-1a, 32 bits


@dataclass(frozen=True)
class HashTable:
    """`slots` is uint32 [power of two, 4]: hash, id, begin in `words`, size; a slot of size 0 is empty.

    A word lies in one of the `probes` slots from its hash on, and no empty slot comes before it.
    """

    slots: npt.NDArray[np.uint32]
    words: npt.NDArray[np.uint8]
    probes: int
    longest: int  # bytes of the longest word


def hash_table(vocabulary: Vocabulary, slots: int | None = None) -> HashTable:
    """The table, at most half full unless `slots` says how many there are. An empty word is left out."""
    words = [word for word in vocabulary if word]
    slots = slots or 1 << (2 * len(words)).bit_length()
    if slots & (slots - 1) or slots < len(words):
        raise ValueError(f"{slots} slots for {len(words)} words; take a power of two that is no smaller")
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    pool = np.frombuffer(b"".join(words) or b"\0", np.uint8)
    begins = np.cumsum(sizes) - sizes
    hashes = _hashes(pool, begins, sizes)
    ids = np.fromiter((vocabulary[word] for word in words), np.int64, len(words))
    entries = np.stack([hashes, ids, begins, sizes], axis=1).astype(np.uint32)
    table = np.zeros((slots, 4), np.uint32)
    probes = _place(table, entries)
    return HashTable(table, pool, probes, int(sizes.max(initial=0)))


def _hashes(
    pool: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """FNV-1a of each word, all words together byte by byte."""
    hashes = np.full(len(sizes), _BASIS, np.uint32)
    rest = np.arange(len(sizes))
    for at in range(int(sizes.max(initial=0))):
        rest = rest[sizes[rest] > at]
        hashes[rest] = (hashes[rest] ^ pool[begins[rest] + at]) * np.uint32(_PRIME)
    return hashes


def _place(table: npt.NDArray[np.uint32], entries: npt.NDArray[np.uint32]) -> int:
    """Fill the table; in each round all words left try their next slot. The rounds that it took."""
    left = np.arange(len(entries))
    for probe in count():
        if not left.size:
            return probe
        wanted = (entries[left, 0] + np.uint32(probe)) & np.uint32(len(table) - 1)
        free = np.flatnonzero(table[wanted, 3] == 0)
        _, first = np.unique(wanted[free], return_index=True)  # of several words the most frequent one
        taken = free[first]
        table[wanted[taken]] = entries[left[taken]]
        left = np.delete(left, taken)
    raise AssertionError
