"""The data: sets of sentences on disk -> cleaned text -> rows of lexicon ids; the vocabulary."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from augment import LONGEST, Augmenter, known_words
from lexicon import Lexicon
from ragged import Array, Rows, load_arrays, save_arrays, stack
from recipe import Recipe
from vocabulary import UNLABELLED, most_frequent

from accel_cli.text.vocabulary import save_vocabulary

NO_LABEL = -1
DEV_ROWS = 4000  # of a dev set at most
RARE = 100  # a word that augmentations write counts at least so often
_BREAK = re.compile(rb"<br ?/?>")


@dataclass(frozen=True)
class Texts:
    """Texts as rows of lexicon ids with their labels, NO_LABEL where there is none.

    `sources` is the place of each row's source in the recipe.
    """

    rows: Rows
    labels: Array
    sources: Array

    def __len__(self) -> int:
        return len(self.labels)

    def save(self, path: Path) -> None:
        own = {"ids": self.rows.ids, "offsets": self.rows.offsets}
        save_arrays(path, {**own, "labels": self.labels, "sources": self.sources})

    @staticmethod
    def load(path: Path) -> Texts:
        arrays = load_arrays(path)
        return Texts(Rows(arrays["ids"], arrays["offsets"]), arrays["labels"], arrays["sources"])

    def per_row(self, recipe: Recipe, field: str) -> Array:
        """What the recipe says of each row's source."""
        return np.array([getattr(source, field) for source in recipe.sources.values()])[self.sources]


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file, which may be packed."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return content.removesuffix(b"\n").split(b"\n")


def read_labelled(path: Path) -> tuple[list[bytes], list[int]]:
    """The texts and labels of a `label<TAB>text` file."""
    rows = [line.split(b"\t", 1) for line in read_lines(path)]
    return [clean(text) for _, text in rows], [int(label) for label, _ in rows]


def clean(text: bytes) -> bytes:
    """Undo what the sources did to their text: doubled quotes of CSV and of the treebank, HTML breaks."""
    for quote in (b'""', b"``", b"''"):
        text = text.replace(quote, b'"')
    return _BREAK.sub(b" ", text)


def read_training(recipe: Recipe, data: Path) -> tuple[Lexicon, Texts]:
    """All training texts, and the lexicon of their words and of those that augmentations write."""
    rng = np.random.default_rng(recipe.seed)
    lexicon = Lexicon()
    rows, labels, sources = [], [], []
    for place, (name, source) in enumerate(recipe.sources.items()):
        if name in recipe.sets:
            lines, own = read_labelled(data / f"{name}.train.tsv.gz")
        else:
            lines = [clean(line) for line in read_lines(data / UNLABELLED)]
            own = [NO_LABEL] * len(lines)
        chosen = rng.permutation(len(lines))[: source.rows or None]
        rows.append(lexicon.rows([lines[row] for row in chosen]))
        labels.append(np.array(own, np.int8)[chosen])
        sources.append(np.full(len(chosen), place, np.int8))
    lexicon.rows(known_words(recipe))
    return lexicon, Texts(stack(rows), np.concatenate(labels), np.concatenate(sources))


def read_dev(recipe: Recipe, data: Path, lexicon: Lexicon) -> dict[str, Texts]:
    """The dev sets of the recipe's sources; words that are new enter the lexicon."""
    dev = {}
    for path in sorted(data.glob("*.dev.tsv*")):
        name = path.name.split(".")[0]
        if name in recipe.sets:
            lines, labels = read_labelled(path)
            own = np.array(labels[:DEV_ROWS], np.int8)
            dev[name] = Texts(lexicon.rows(lines[:DEV_ROWS]), own, np.zeros(len(own), np.int8))
    return dev


def count_vocabulary(recipe: Recipe, lexicon: Lexicon, texts: Texts, path: Path) -> None:
    """Write the student's vocabulary: the words that it will see most often."""
    weights = np.repeat(texts.per_row(recipe, "student"), texts.rows.lengths)
    totals = np.bincount(texts.rows.ids, weights, len(lexicon))
    own = np.unique(Lexicon(lexicon).rows(known_words(recipe)).ids)
    totals[own] = np.maximum(totals[own], RARE)
    counts = Counter({word: total for word, total in zip(lexicon, totals.tolist(), strict=True) if total > 0})
    save_vocabulary(path, most_frequent(counts, recipe.spec.vocabulary_size))


def augment(recipe: Recipe, lexicon: Lexicon, texts: Texts, neighbours: Array) -> tuple[Rows, dict[str, int]]:
    """The recipe's augmentations in random order, and how many there are of each kind."""
    rng = np.random.default_rng(recipe.seed + 1)
    lengths = texts.rows.lengths
    shares = texts.per_row(recipe, "base") * ((lengths > 0) & (lengths <= LONGEST))
    edges = np.cumsum(shares / shares.sum())

    def choose(count: int) -> Array:
        return np.minimum(np.searchsorted(edges, rng.random(count), side="right"), len(texts) - 1)

    augmenter = Augmenter(recipe, lexicon, neighbours, texts.rows, choose, rng)
    made = {kind: augmenter.make(kind, count) for kind, count in recipe.augmentations.items()}
    whole = stack(list(made.values()))
    return whole.take(rng.permutation(len(whole))), {kind: len(rows) for kind, rows in made.items()}
