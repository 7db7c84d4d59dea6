"""What travels between the parts: a batch of sentences on its way in, its predictions on the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True)
class TokenBatch:
    """Sentences as token ids, laid end to end.

    `ids` is int32 [tokens]; sentence i holds `ids[offsets[i]:offsets[i + 1]]`; `offsets` is
    int32 [sentences + 1]. Every sentence is already padded and cut as the model demands.
    """

    ids: Ints
    offsets: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Tokens of each sentence, int32 [sentences]."""
        return np.diff(self.offsets)

    def rows(self, start: int, stop: int) -> TokenBatch:
        """The sentences start to stop - 1 as a batch of their own."""
        first, last = self.offsets[start], self.offsets[stop]
        return TokenBatch(self.ids[first:last], self.offsets[start : stop + 1] - first)

    def take(self, order: npt.NDArray[np.integer]) -> TokenBatch:
        """The sentences `order[0]`, `order[1]`, ... as a batch."""
        lengths = self.lengths[order]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return TokenBatch(self.ids[within + np.repeat(self.offsets[order], lengths)], offsets)

    @staticmethod
    def from_rows(ids: npt.NDArray[np.integer]) -> TokenBatch:
        """A batch from a rectangle of ids [sentences, length]."""
        sentences, length = ids.shape
        offsets = np.arange(sentences + 1, dtype=np.int32) * np.int32(length)
        return TokenBatch(np.ascontiguousarray(ids, dtype=np.int32).ravel(), offsets)


@dataclass(frozen=True)
class EmbeddingBatch:
    """Sentences as embeddings, channel first: `values` is float32 [sentences, dimension, length]."""

    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, start: int, stop: int) -> EmbeddingBatch:
        """The sentences start to stop - 1 as a batch of their own."""
        return EmbeddingBatch(self.values[start:stop])


Batch: TypeAlias = TokenBatch | EmbeddingBatch


@dataclass(frozen=True)
class Predictions:
    """What a model says of each sentence.

    `logits` is float32 [sentences, labels]; `scores` its softmax, the same shape; `labels` is the
    index of the largest logit, int32 [sentences].
    """

    logits: Floats
    scores: Floats
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)

    @staticmethod
    def from_logits(logits: Floats) -> Predictions:
        """Scores and labels from logits, in float32."""
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = shifted / shifted.sum(axis=1, keepdims=True)
        return Predictions(logits, scores, logits.argmax(axis=1).astype(np.int32))

    @staticmethod
    def concatenate(parts: list[Predictions]) -> Predictions:
        """The predictions of consecutive batches as one."""
        if len(parts) == 1:
            return parts[0]
        return Predictions(
            np.concatenate([part.logits for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )
