"""Rows of a label and a score as ready pieces: whoever puts them end to end needs no formatter."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Predictions
from accel_cli.text.chunks import TextChunk
from accel_cli.text.rows import SCORE_DECIMALS, Formatter, TextFormatter

_STEPS = 10**SCORE_DECIMALS
_FIELDS = (["label"], ["label", "score"], ["score"])  # sorted
_APART = (0, _STEPS, _STEPS // 9)  # scores whose texts differ in their first and last digits: 0, 1, 0.1111


@dataclass(frozen=True)
class RowTable:
    """A row is `before[label]`, `scores[score]` and `after[label]`, a score being in ten-thousandths."""

    before: list[bytes]
    scores: list[bytes]
    after: list[bytes]

    @property
    def longest(self) -> int:
        """The bytes of the longest row there can be."""
        around = max(len(b) + len(a) for b, a in zip(self.before, self.after, strict=True))
        return around + max(map(len, self.scores))


def row_table(formatter: Formatter, labels: int) -> RowTable | None:
    """The pieces of a formatter's rows, made by itself, or None if they hold more than label and score."""
    if not isinstance(formatter, TextFormatter) or sorted(formatter.fields) not in _FIELDS:
        return None
    before, after = [], []
    for label in range(labels):
        rows = [_rows(formatter, label, np.array([score])) for score in _APART]
        before.append(_common_front(rows))
        rest = [row.removeprefix(before[label])[::-1] for row in rows]
        after.append(_common_front(rest)[::-1])
    every = _rows(formatter, 0, np.arange(_STEPS + 1)).removeprefix(before[0]).removesuffix(after[0])
    return RowTable(before, every.split(after[0] + before[0]), after)


def _rows(formatter: Formatter, label: int, points: npt.NDArray[np.int64]) -> bytes:
    """One row for each score."""
    scores = (points / _STEPS).astype(np.float32)[:, None]
    found = Predictions(scores, scores, np.full(len(points), label, np.int32))
    return formatter.rows(TextChunk([], 1), found)


def _common_front(rows: list[bytes]) -> bytes:
    """The bytes that all rows begin with."""
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return bytes(byte for byte, *_ in alike)
