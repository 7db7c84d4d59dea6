"""Walks through all texts: new sentences of which every three words stood together somewhere."""

from __future__ import annotations

import numpy as np
from ragged import Array, Rows

LONGEST = 40  # tokens of a walk at most
CROSSING = 0.35  # how often a walk changes its text where it can


class Crossings:
    """Where in the texts the same two words follow each other."""

    def __init__(self, texts: Rows) -> None:
        self.texts = texts
        self.last = np.zeros(len(texts.ids), bool)
        self.last[texts.offsets[1:][texts.lengths > 0] - 1] = True
        begins = np.roll(self.last, 1)
        pairs = np.roll(texts.ids, 1).astype(np.int64) << 32 | texts.ids
        pairs[begins] = -1 - np.flatnonzero(begins)  # a first word is like no other
        self.order = np.argsort(pairs, kind="stable")
        edges = np.flatnonzero(np.diff(pairs[self.order], prepend=np.int64(-1) << 62))
        sizes = np.diff(edges, append=len(pairs))
        self.starts, self.sizes = np.empty_like(self.order), np.empty_like(self.order)
        self.starts[self.order], self.sizes[self.order] = np.repeat(edges, sizes), np.repeat(sizes, sizes)

    def walk(self, rows: Array, rng: np.random.Generator) -> Rows:
        """One walk from the beginning of each of the rows, to where the text it has come to ends."""
        places = self.texts.offsets[rows]
        ids = np.empty((len(rows), LONGEST), np.int32)
        lengths = np.zeros(len(rows), np.int64)
        walking = np.flatnonzero(self.texts.lengths[rows])
        for step in range(LONGEST):
            here = places[walking]
            ids[walking, step], lengths[walking] = self.texts.ids[here], step + 1
            crossing = rng.random(len(here)) < CROSSING
            others = self.order[
                self.starts[here] + (rng.random(len(here)) * self.sizes[here]).astype(np.int64)
            ]
            here = np.where(crossing, others, here)
            going = ~self.last[here]
            walking = walking[going]
            places[walking] = here[going] + 1
        written = np.arange(LONGEST) < lengths[:, None]
        return Rows(ids[written], np.concatenate(([0], np.cumsum(lengths))))
