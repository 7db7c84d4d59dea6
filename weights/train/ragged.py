"""Rows of ids of different lengths, laid end to end, and the few operations that all others need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """Row i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: Array
    offsets: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    @property
    def owners(self) -> Array:
        """The row to which each id belongs."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def take(self, rows: Array) -> Rows:
        """Those rows, in that order."""
        return self.slices(self.offsets[rows], self.lengths[rows])

    def slices(self, starts: Array, counts: Array) -> Rows:
        """Row i of the result is `ids[starts[i]:starts[i] + counts[i]]`."""
        offsets = np.concatenate(([0], np.cumsum(counts)))
        return Rows(self.ids[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)], offsets)

    def filter(self, kept: Array) -> Rows:
        """Without the ids that are not `kept`."""
        totals = np.concatenate(([0], np.cumsum(kept)))
        return Rows(self.ids[kept], totals[self.offsets])

    def expand(self, table: Rows) -> Rows:
        """Each id replaced by its row in `table`."""
        parts = table.take(self.ids)
        return Rows(parts.ids, parts.offsets[self.offsets])

    def cut(self, most: int) -> Rows:
        """At most so many ids of each."""
        return self.slices(self.offsets[:-1], np.minimum(self.lengths, most))


def repeated(ids: Sequence[int], count: int) -> Rows:
    """The same row `count` times."""
    return Rows(np.tile(np.array(ids, np.int32), count), np.arange(count + 1) * len(ids))


def from_lists(lists: Sequence[Sequence[int]]) -> Rows:
    """Rows given as lists."""
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in lists]))).astype(np.int64)
    return Rows(np.array([value for row in lists for value in row], np.int32), offsets)


def stack(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, one part after the other."""
    lengths = np.concatenate([part.lengths for part in parts])
    return Rows(np.concatenate([part.ids for part in parts]), np.concatenate(([0], np.cumsum(lengths))))


def beside(parts: Sequence[Rows]) -> Rows:
    """Row i of the result is row i of the first part, then that of the second, and so on."""
    whole = stack(parts)
    order = np.arange(len(whole)).reshape(len(parts), -1).T.ravel()
    mixed = whole.take(order)
    return Rows(mixed.ids, mixed.offsets[:: len(parts)])


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a `.npz`, whole or not at all."""
    beside_it = path.with_suffix(".part.npz")
    np.savez(beside_it, **arrays)
    beside_it.replace(path)


def load_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a `.npz`, each read once."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files}
