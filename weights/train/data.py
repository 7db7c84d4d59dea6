"""The data: sets of sentences on disk -> cleaned text -> token ids, laid end to end."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from recipe import Recipe
from vocabulary import UNLABELLED, count_words, most_frequent

from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import PAD, load_vocabulary, save_vocabulary

Array = npt.NDArray[Any]
NO_LABEL = -1
DEV_ROWS = 4000  # of a dev set at most
REWRITTEN = 0.1  # of the sentences that can be written another way
_BREAK = re.compile(rb"<br ?/?>")
_JOINED = re.compile(rb"(?i)(?<=\w) ?(?:(n)'(t)|'(s|re|ve|ll|d|m))\b")


@dataclass(frozen=True)
class Texts:
    """Sentences as token ids: row i is `ids[offsets[i]:offsets[i + 1]]`, padded and cut as the model demands.

    `labels` holds NO_LABEL where there is none; `sources` is the place of each row's source in the recipe.
    """

    ids: Array
    offsets: Array
    labels: Array
    sources: Array

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    def save(self, path: Path) -> None:
        save_arrays(path, {field.name: getattr(self, field.name) for field in fields(self)})

    @staticmethod
    def load(path: Path) -> Texts:
        with np.load(path) as file:
            return Texts(**{name: file[name] for name in file.files})


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a `.npz`, whole or not at all."""
    beside = path.with_suffix(".part.npz")
    np.savez(beside, **arrays)
    beside.replace(path)


def read_labelled(path: Path) -> tuple[list[bytes], list[int]]:
    """The texts and labels of a `label<TAB>text` file."""
    rows = [line.split(b"\t", 1) for line in _lines(path)]
    return [clean(text) for _, text in rows], [int(label) for label, _ in rows]


def clean(text: bytes) -> bytes:
    """Undo what the sources did to their text: doubled quotes of CSV, HTML breaks."""
    return _BREAK.sub(b" ", text.replace(b'""', b'"'))


def rewrite(text: bytes) -> bytes:
    """The text as people type it: "dont" for "do n't", plain quotes for those of the treebank."""
    return _JOINED.sub(rb"\1\2\3", text.replace(b"``", b'"').replace(b"''", b'"'))


def rewrite_some(texts: Sequence[bytes], rng: np.random.Generator) -> list[bytes]:
    """The texts, some of them rewritten."""
    chosen = rng.random(len(texts)) < REWRITTEN
    return [rewrite(text) if here else text for text, here in zip(texts, chosen, strict=True)]


def prepare(recipe: Recipe, data: Path, out: Path) -> tuple[Texts, dict[str, Texts]]:
    """The training texts and the dev sets; writes the vocabulary, and keeps the training texts in `out`."""
    kept = out / "texts.npz"
    words = out / "vocabulary.txt"
    if not kept.exists():
        _prepare_training(recipe, data, words).save(kept)
    tokenizer = _tokenizer(recipe, words)
    dev = {}
    for path in sorted(data.glob("*.dev.tsv*")):
        name = path.name.split(".")[0]
        if name in recipe.sets:
            texts, labels = read_labelled(path)
            dev[name] = _encode(tokenizer, texts[:DEV_ROWS], labels[:DEV_ROWS], 0)
    return Texts.load(kept), dev


def _prepare_training(recipe: Recipe, data: Path, words: Path) -> Texts:
    rng = np.random.default_rng(recipe.seed)
    sets = {name: read_labelled(data / f"{name}.train.tsv.gz") for name in recipe.sets}
    unlabelled = _lines(data / UNLABELLED)
    sets["unlabelled"] = unlabelled, [NO_LABEL] * len(unlabelled)
    sets = {name: _some(*rows, recipe.sources[name].rows, rng) for name, rows in sets.items()}
    texts = {name: rewrite_some(lines, rng) for name, (lines, _) in sets.items()}
    counts: Counter[bytes] = Counter()
    for name, lines in texts.items():
        weight = recipe.sources[name].weight
        counts.update({word: weight * count for word, count in count_words(lines).items()})
    save_vocabulary(words, most_frequent(counts, recipe.spec.vocabulary_size))
    tokenizer = _tokenizer(recipe, words)
    parts = [_encode(tokenizer, texts[name], sets[name][1], place) for place, name in enumerate(sets)]
    whole = _join(parts)
    return _join([whole, cut_spans(whole, recipe.spans.rows, recipe.spec.widest, len(sets), rng)])


def _some(
    texts: list[bytes], labels: list[int], rows: int, rng: np.random.Generator
) -> tuple[list[bytes], list[int]]:
    """As many rows by chance, or all when `rows` is 0."""
    chosen = rng.permutation(len(texts))[: rows or None]
    return [texts[row] for row in chosen], [labels[row] for row in chosen]


def cut_spans(texts: Texts, rows: int, least: int, source: int, rng: np.random.Generator) -> Texts:
    """Random parts of random sentences, without labels: what a phrase of any kind means is worth knowing."""
    lengths = texts.lengths
    chosen = rng.choice(np.flatnonzero(lengths > least), rows)
    counts = rng.integers(1, np.minimum(lengths[chosen], 4 * least))
    starts = texts.offsets[chosen] + rng.integers(0, lengths[chosen] - counts + 1)
    sizes = np.maximum(counts, least)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    places = np.minimum(within + np.repeat(starts, sizes), len(texts.ids) - 1)
    ids = np.where(within < np.repeat(counts, sizes), texts.ids[places], np.int32(PAD))
    return Texts(ids, offsets, np.full(rows, NO_LABEL, np.int8), np.full(rows, source, np.int8))


def _lines(path: Path) -> list[bytes]:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return content.removesuffix(b"\n").split(b"\n")


def _tokenizer(recipe: Recipe, words: Path) -> Tokenizer:
    spec = recipe.spec
    return Tokenizer(load_vocabulary(words, spec.vocabulary_size), spec.min_tokens, spec.max_tokens)


def _encode(tokenizer: Tokenizer, texts: list[bytes], labels: list[int], source: int) -> Texts:
    batch = tokenizer.encode(texts).batch
    places = np.full(len(texts), source, np.int8)
    return Texts(batch.ids, batch.offsets.astype(np.int64), np.array(labels, np.int8), places)


def _join(parts: list[Texts]) -> Texts:
    lengths = np.concatenate([part.lengths for part in parts])
    return Texts(
        np.concatenate([part.ids for part in parts]),
        np.concatenate(([0], np.cumsum(lengths))),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.sources for part in parts]),
    )
