"""What a new model takes over from a base: all its words, and its filters, which stay as they are.

A new model's embedding is the base's with new dimensions beside it, and its filters are the base's,
which see only the base's dimensions, with new ones beside them that see only the new dimensions. So
the base's features of a sentence are those of the base, and are computed once, before the training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Floats, TokenBatch
from accel_cli.engines.cpu_convolution import FoldedConvolution
from accel_cli.errors import ConfigError
from accel_cli.model.config import ModelSpec, load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.weights import Weights
from accel_cli.text.tokenizer import tokens
from accel_cli.text.vocabulary import SPECIAL, UNKNOWN, load_vocabulary

_AT_ONCE = 4096  # texts or sentences
Half: TypeAlias = npt.NDArray[np.float16]


@dataclass(frozen=True)
class Base:
    """A model of which another one is made, and its words, the special ones included."""

    spec: ModelSpec
    weights: Weights
    words: list[bytes]

    def features(self, batch: TokenBatch) -> Half:
        """Its pooled features, float16 [sentences, widths, filters], of ids that may go beyond its words."""
        ids = np.where(batch.ids < len(self.words), batch.ids, UNKNOWN).astype(np.int32)
        order = np.argsort(batch.lengths, kind="stable")
        ordered = TokenBatch(ids, batch.offsets).take(order)
        convolution = FoldedConvolution(self.spec, self.weights)
        found = np.empty((len(batch), len(self.spec.widths), self.spec.filters), dtype=np.float16)
        for start in range(0, len(batch), _AT_ONCE):
            part = ordered.rows(start, min(start + _AT_ONCE, len(batch)))
            rows = order[start : start + _AT_ONCE]
            found[rows] = convolution.features(part).reshape(len(part), *found.shape[1:])
        return found

    def projection(self, dimension: int) -> Floats:
        """Its embedding turned into `dimension` values a word that keep most of it, of deviation 1."""
        table = self.weights.embedding - self.weights.embedding.mean(axis=0)
        _, axes = np.linalg.eigh(table.T @ table)
        kept = table @ axes[:, ::-1][:, :dimension]
        if kept.shape[1] < dimension:
            kept = np.pad(kept, ((0, 0), (0, dimension - kept.shape[1])))
        scaled: Floats = (kept / max(float(kept.std()), 1e-6)).astype(np.float32)
        return scaled


def load_base(name: str) -> Base | None:
    """The base of a configuration; None for `none`."""
    if name == "none":
        return None
    config = load_config(name)
    spec = config.model
    if spec.length is not None:
        raise ConfigError(
            f"{config.path} takes sentences of {spec.length} tokens only; choose a base of `length: ragged`"
        )
    words = list(load_vocabulary(spec.vocabulary, spec.vocabulary_size))
    return Base(spec, obtain_weights(spec), words)


def extend(words: Sequence[bytes], texts: Sequence[bytes], least: int, most: int) -> list[bytes]:
    """`words`, then the frequent words of the texts: of at least `least` occurrences, up to `most` in all."""
    counts: Counter[bytes] = Counter()
    for start in range(0, len(texts), _AT_ONCE):
        counts.update(tokens(b"\n".join(texts[start : start + _AT_ONCE])))
    del counts[b"\n"]
    known = {*words, *SPECIAL}
    new = [word for word, count in counts.items() if count >= least and word not in known and _is_text(word)]
    new.sort(key=lambda word: (-counts[word], word))
    kept = list(words or SPECIAL)
    return kept + new[: max(0, most - len(kept))]


def _is_text(word: bytes) -> bool:
    try:
        word.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
