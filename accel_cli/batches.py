"""What travels between the parts: a batch of sentences on its way in, its predictions on the way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int32]
Bools: TypeAlias = npt.NDArray[np.bool_]
P = TypeVar("P", bound="Predictions")


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
    def tokens(self) -> int:
        """Of all sentences together."""
        return len(self.ids)

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

    def parts(self, tokens: int) -> list[TokenBatch]:
        """Consecutive parts of at most so many tokens, or of one sentence."""
        if self.offsets[-1] <= tokens:
            return [self]
        parts, start = [], 0
        while start < len(self):
            most = int(self.offsets[start]) + tokens
            stop = max(start + 1, int(np.searchsorted(self.offsets, most, side="right")) - 1)
            parts.append(self.rows(start, stop))
            start = stop
        return parts

    def embedded(self, table: Floats) -> EmbeddingBatch:
        """Sentences of one length as embeddings; `table` is float32 [vocabulary, dimension]."""
        ids = self.ids.reshape(len(self), -1)
        return EmbeddingBatch(np.ascontiguousarray(table[ids].transpose(0, 2, 1)))

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

    @property
    def tokens(self) -> int:
        """Of all sentences together."""
        return len(self.values) * int(self.values.shape[2])

    def rows(self, start: int, stop: int) -> EmbeddingBatch:
        """The sentences start to stop - 1 as a batch of their own."""
        return EmbeddingBatch(self.values[start:stop])


Batch: TypeAlias = TokenBatch | EmbeddingBatch


@dataclass(frozen=True)
class TextBatch:
    """Sentences as one piece of text, in which each of the `count` lines ends with a newline.

    There is no carriage return, so that a line is the same for those who drop one before a newline.
    """

    text: bytes
    count: int

    def __len__(self) -> int:
        return self.count

    @staticmethod
    def of(lines: Sequence[bytes]) -> TextBatch:
        """The lines; a newline or a carriage return inside a line becomes a space: all separate."""
        text = b"\n".join([*lines, b""])
        if np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")) != len(lines):
            text = b"\n".join([*(line.replace(b"\n", b" ") for line in lines), b""])
        return TextBatch(text.replace(b"\r", b" "), len(lines))

    def lines(self) -> list[bytes]:
        """The lines, without their newlines."""
        return self.text.split(b"\n")[:-1]

    def parts(self, lines: int, size: int) -> Iterator[TextBatch]:
        """Consecutive parts of at most `lines` lines and `size` bytes; a line that is longer alone is cut."""
        if len(self) <= lines and len(self.text) <= size:
            yield self
            return
        ends = np.flatnonzero(np.frombuffer(self.text, np.uint8) == ord("\n")) + 1
        start = begin = 0
        while start < len(self):
            fit = int(np.searchsorted(ends, begin + size, side="right"))
            stop = min(max(fit, start + 1), start + lines)
            end = int(ends[stop - 1])
            whole = end - begin <= size
            text = self.text[begin:end] if whole else self.text[begin : begin + size - 1] + b"\n"
            yield TextBatch(text, stop - start)
            start, begin = stop, end


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

    @classmethod
    def concatenate(cls: type[P], parts: Sequence[P]) -> P:
        """The predictions of consecutive batches as one."""
        if len(parts) == 1:
            return parts[0]
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class TextPredictions(Predictions):
    """The same of sentences that came as text, and what became of each text.

    `lengths` are its tokens, padded and cut, int32 [sentences]; `truncated` and `blank`, bool [sentences],
    say whether it was cut, and whether it had none.
    """

    lengths: Ints
    truncated: Bools
    blank: Bools
