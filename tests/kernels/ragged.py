"""Sentences of different lengths laid end to end, as the convolution and the pooling see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np


def offsets_of(lengths: Sequence[int]) -> np.ndarray:
    """The first token of each sentence, and the number of tokens."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def windows(offsets: np.ndarray, width: int) -> Iterator[tuple[int, int, int]]:
    """For each sentence: its number, its first token, and how many windows of `width` lie inside it."""
    for sentence, (first, end) in enumerate(pairwise(offsets)):
        yield sentence, int(first), int(end - first) - width + 1
