"""What readers give: some consecutive records of one input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from accel_cli.batches import TextBatch
from accel_cli.text.joined import JoinedTexts


@dataclass(frozen=True)
class TextChunk:
    """Consecutive texts. `failed` holds, by its place in `texts`, why a record has no text.

    `kept` is a pyarrow table of the columns that go to the output with these records, or None.
    """

    texts: Sequence[bytes]
    first: int  # the number of the first record of the chunk, from 1
    failed: dict[int, str] = field(default_factory=dict)
    kept: Any = None

    def __len__(self) -> int:
        return len(self.texts)

    def batch(self) -> TextBatch:
        """The texts in one piece."""
        return self.texts.batch() if isinstance(self.texts, JoinedTexts) else TextBatch.of(self.texts)


@dataclass(frozen=True)
class ArrayChunk:
    """Consecutive sentences, unchecked: token ids [n, length] or `embeddings` [n, dimension, length]."""

    values: npt.NDArray[Any]
    first: int
    embeddings: bool

    def __len__(self) -> int:
        return len(self.values)


Chunk = TextChunk | ArrayChunk


def text_chunks(lines: Iterable[list[bytes]]) -> Iterator[TextChunk]:
    """Lists of lines as chunks of texts, one a line."""
    first = 1
    for some in lines:
        yield TextChunk(some, first)
        first += len(some)
