"""Labelled rows in memory, checked, and their split into rows to learn from and rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel_cli.errors import InputError
from accel_cli.text.labelled import Labelled

_MOST_HELD_OUT = 5000  # rows: enough for three digits of an accuracy

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Texts and the indices of their labels, int64 [rows]."""

    texts: list[bytes]
    labels: Indices

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Indices) -> Examples:
        """Those rows."""
        return Examples([self.texts[row] for row in rows.tolist()], self.labels[rows])


def read_examples(
    inputs: Sequence[Labelled], labels: Sequence[str] | None = None
) -> tuple[Examples, list[str]]:
    """All rows and the names of their labels: `labels`, or those that occur, sorted. Raises InputError."""
    texts, names = [], []
    known = set(labels or ())
    for source in inputs:
        for row in source.rows():
            if labels is not None and row.label not in known:
                raise InputError(
                    f"{source.at(row.line)}: label {row.label[:60]!r} does not occur among the rows to learn"
                    f" from; those are {', '.join(labels)}"
                )
            texts.append(row.text)
            names.append(row.label)
    place = ", ".join(source.place for source in inputs)
    if not texts:
        raise InputError(f"no labelled rows in {place}")
    found = list(labels) if labels is not None else sorted(set(names), key=_order)
    if len(found) < 2:
        raise InputError(f"{place} has the label {found[0]!r} alone; a classifier needs two labels or more")
    index = {name: number for number, name in enumerate(found)}
    return Examples(texts, np.array([index[name] for name in names], dtype=np.int64)), found


def _order(name: str) -> tuple[int, str]:
    """Whole numbers by value, then words."""
    return (len(name), name) if name.isdecimal() else (1 << 30, name)


def split(examples: Examples, seed: int) -> tuple[Indices, Indices]:
    """Rows to learn from and rows held out, a tenth (a fifth of a small file), about alike for every label.

    Rows of one text stay together, so that none is learned from and judged by. A label with a single
    text is only learned from.
    """
    share = min(max(200 / len(examples), 0.1), 0.2, _MOST_HELD_OUT / len(examples))
    place = {text: number for number, text in enumerate(dict.fromkeys(examples.texts))}
    texts = np.array([place[text] for text in examples.texts], dtype=np.int64)
    _, firsts = np.unique(texts, return_index=True)
    held = np.zeros(len(place), dtype=np.bool_)
    rng = np.random.default_rng(seed)
    for label in np.unique(examples.labels[firsts]):
        own = rng.permutation(texts[firsts][examples.labels[firsts] == label])
        count = round(share * len(own)) or int(len(own) > 1)
        held[own[:count]] = True
    if not held.any():
        raise InputError("too few rows to hold some out for judging; give more, or judge by --dev FILE")
    return np.flatnonzero(~held[texts]), np.flatnonzero(held[texts])
