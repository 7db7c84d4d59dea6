"""New texts out of old ones: parts, recombinations and rewritings, for the teacher to label.

Every function takes rows of lexicon ids and returns as many, each changed by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from lexicon import TYPED, Lexicon
from ragged import Array, Rows, beside, from_lists, load_arrays, stack
from recipe import Recipe
from torch.nn import functional
from walks import Crossings

Choose = Callable[[int], Array]
LONGEST = 60  # tokens of a text from which new ones are made
WALKERS = 500_000  # at once
NEGATIONS = [
    "not",
    "n't",
    "never",
    "no",
    "without",
    "hardly",
    "barely",
    "nothing",
    "neither",
    "nor",
    "lacks",
    "cannot",
]
AUXILIARIES = [
    "is",
    "was",
    "are",
    "were",
    "be",
    "been",
    "do",
    "does",
    "did",
    "has",
    "have",
    "had",
    "can",
    "could",
    "would",
    "should",
    "will",
    "'s",
    "'re",
    "ca",
    "wo",
]
LURES = (b"@user", b"http://t.co/x1y2", b"rt @user :", b"#movie", b"www.example.com")


def known_words(recipe: Recipe) -> list[bytes]:
    """What augmentations write, whether the data hold it or not."""
    texts = (*recipe.openers, *recipe.connectors, *recipe.emoji, *NEGATIONS, *AUXILIARIES, ".")
    return [
        *LURES,
        *TYPED,
        *(part for pair in TYPED.values() for part in pair),
        *(text.encode() for text in texts),
    ]


def near_words(lexicon: Lexicon, vectors: Path, count: int, device: torch.device) -> Array:
    """For each word the `count` nearest of the other words; for a word without a vector itself."""
    file = load_arrays(vectors)
    places = {word.encode(): row for row, word in enumerate(file["words"].tolist())}
    words = [(number, places[word]) for word, number in lexicon.items() if word in places]
    numbers, rows = np.array(words, np.int32).T
    table = functional.normalize(torch.from_numpy(file["vecs"][rows]).float().to(device), dim=1)
    result = np.repeat(np.arange(len(lexicon), dtype=np.int32)[:, None], count, axis=1)
    for start in range(0, len(rows), 2048):
        some = slice(start, start + 2048)
        near = (table[some] @ table.T).topk(min(count + 1, len(rows))).indices[:, 1:].cpu().numpy()
        result[numbers[some], : near.shape[1]] = numbers[near]
    return result


class Augmenter:
    """Makes the recipe's augmentations from `texts`, of which `choose` gives as many rows as asked for."""

    def __init__(
        self,
        recipe: Recipe,
        lexicon: Lexicon,
        neighbours: Array,
        texts: Rows,
        choose: Choose,
        rng: np.random.Generator,
    ) -> None:
        self.lexicon, self.neighbours, self.rng = lexicon, neighbours, rng
        self.texts, self.choose = texts, choose
        self.openers = lexicon.rows(text.encode() for text in recipe.openers)
        self.connectors = lexicon.rows(text.encode() for text in recipe.connectors)
        self.emoji = lexicon.rows(text.encode() for text in recipe.emoji)
        self.lures = lexicon.rows(LURES)
        self.stop = lexicon.rows([b"."])
        self.negations = self._ids(NEGATIONS)
        self.inserted = from_lists(
            [[lexicon[word]] for word in (b"not", b"n't", b"never", b"hardly", b"not")]
        )
        self.auxiliaries = self._ids(AUXILIARIES)
        self.contracted = np.arange(len(lexicon), dtype=np.int32)
        for joined, (first, _) in TYPED.items():
            self.contracted[lexicon[first]] = lexicon[joined]

    def make(self, kind: str, count: int) -> Rows:
        """`count` texts, at most, of the kind with that name."""
        made: Rows = getattr(self, kind)(count)
        return made.take(np.flatnonzero((made.lengths > 0) & (made.lengths <= 4 * LONGEST)))

    def _draw(self, count: int) -> Rows:
        """Texts as they are."""
        return self.texts.take(self.choose(count))

    def spans(self, count: int) -> Rows:
        """Random parts of texts, short ones more often."""
        return self._cut(self._draw(count), 20)

    def swapped(self, count: int) -> Rows:
        """Texts with some words replaced by near ones, which may well mean the opposite."""
        return self._swap(self._draw(count), self.rng.uniform(0.05, 0.5, count))

    def swapped_spans(self, count: int) -> Rows:
        """The same with parts of texts."""
        return self._swap(self.spans(count), self.rng.uniform(0.1, 0.6, count))

    def dropped(self, count: int) -> Rows:
        """Texts without some of their words."""
        rows = self._draw(count)
        rates = np.repeat(self.rng.uniform(0.05, 0.35, count), rows.lengths)
        return rows.filter(self.rng.random(len(rows.ids)) >= rates)

    def joined(self, count: int) -> Rows:
        """Two parts of texts with "but" or the like between them."""
        return beside(
            [
                self._cut(self._draw(count), 14),
                self._some(self.connectors, count),
                self._cut(self._draw(count), 14),
            ]
        )

    def opened(self, count: int) -> Rows:
        """Short parts behind "not", "far from", "could have been" and the like."""
        rows = beside([self._some(self.openers, count), self._cut(self._draw(count), 7)])
        return self._swap(rows, np.where(self.rng.random(count) < 0.5, 0.0, 0.3))

    def negated(self, count: int) -> Rows:
        """Texts with a negation more, behind "is" or the like, or with none at all."""
        rows = self._draw(count)
        order = self.rng.permutation(np.flatnonzero(np.isin(rows.ids, self.auxiliaries)))
        chosen = np.full(len(rows), -1)
        chosen[rows.owners[order]] = order + 1
        fitting = np.flatnonzero(chosen >= 0)
        starts, ends, middles = rows.offsets[fitting], rows.offsets[fitting + 1], chosen[fitting]
        more = beside(
            [
                rows.slices(starts, middles - starts),
                self._some(self.inserted, len(fitting)),
                rows.slices(middles, ends - middles),
            ]
        )
        negation = np.isin(rows.ids, self.negations)
        having = np.unique(rows.owners[negation])
        return stack([more, rows.filter(~negation).take(having)])

    def spliced(self, count: int) -> Rows:
        """Texts in which a part is replaced by a part of another."""
        rows = self._draw(count)
        lengths, starts = rows.lengths, rows.offsets[:-1]
        first = (self.rng.random(count) * (lengths + 1)).astype(np.int64)
        removed = np.minimum(self.rng.integers(0, 6, count), lengths - first)
        last = first + removed
        return beside(
            [
                rows.slices(starts, first),
                self._cut(self._draw(count), 6),
                rows.slices(starts + last, lengths - last),
            ]
        )

    def walks(self, count: int) -> Rows:
        """Ways through all texts that change, now and then, to another place with the same last two words."""
        crossings = Crossings(self.texts)
        counts = [min(WALKERS, count - start) for start in range(0, count, WALKERS)]
        return stack([crossings.walk(self.choose(some), self.rng) for some in counts])

    def paragraphs(self, count: int) -> Rows:
        """Several texts one after the other."""
        parts = []
        for place in range(5):
            rows = beside([self._draw(count), self._some(self.stop, count)])
            present = self.rng.random(count) < (1, 1, 0.5, 0.3, 0.2)[place]
            parts.append(rows.slices(rows.offsets[:-1], rows.lengths * present))
        return beside(parts)

    def typed(self, count: int) -> Rows:
        """Texts as people type them: "dont", with emoji, names and links."""
        rows = self._draw(count)
        ids, owners = rows.ids.copy(), rows.owners
        nots = np.flatnonzero(ids[1:] == self.lexicon[b"n't"]) + 1
        before = ids[nots - 1]
        nots = nots[(self.contracted[before] != before) & (owners[nots] == owners[nots - 1])]
        ids[nots - 1] = self.contracted[ids[nots - 1]]
        kept = np.ones(len(ids), bool)
        kept[nots] = False
        typed = Rows(ids, rows.offsets).filter(kept)
        lures, emoji = self._some(self.lures, count), self._some(self.emoji, count)
        before = lures.slices(lures.offsets[:-1], lures.lengths * (self.rng.random(count) < 0.3))
        times = self.rng.choice(4, count, p=(0.4, 0.4, 0.1, 0.1))
        after = [emoji.slices(emoji.offsets[:-1], emoji.lengths * (times > place)) for place in range(3)]
        return beside([before, typed, *after])

    def words(self, count: int) -> Rows:
        """Single words of the lexicon."""
        ids = self.rng.permutation(np.arange(1, len(self.lexicon), dtype=np.int32))[:count]
        return Rows(ids, np.arange(len(ids) + 1))

    def _ids(self, words: list[str]) -> Array:
        return np.array([self.lexicon[word.encode()] for word in words])

    def _some(self, rows: Rows, count: int) -> Rows:
        return rows.take(self.rng.integers(0, len(rows), count))

    def _cut(self, rows: Rows, most: int) -> Rows:
        """A random part of each row, of 1 to `most` tokens, short ones more often."""
        lengths = rows.lengths
        counts = np.exp(self.rng.uniform(0, np.log(most + 1), len(rows))).astype(np.int64)
        counts = np.minimum(counts, lengths)
        starts = (self.rng.random(len(rows)) * (lengths - counts + 1)).astype(np.int64)
        return rows.slices(rows.offsets[:-1] + starts, counts)

    def _swap(self, rows: Rows, rates: Array) -> Rows:
        """Each word replaced by one of its neighbours at its row's rate."""
        here = self.rng.random(len(rows.ids)) < np.repeat(rates, rows.lengths)
        near = self.neighbours[rows.ids, self.rng.integers(0, self.neighbours.shape[1], len(rows.ids))]
        return Rows(np.where(here, near, rows.ids), rows.offsets)
