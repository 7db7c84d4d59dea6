"""What every rung classifies: random sentences with golden ones among them, as ids and as embeddings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, EmbeddingBatch, Floats, TokenBatch
from accel_cli.bench.inputs import generated
from accel_cli.cuda.buffers import page_locked
from accel_cli.cuda.errors import translated
from accel_cli.engines.planner import cores
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec
from accel_cli.model.golden import Golden
from accel_cli.model.weights import Weights
from accel_cli.numeric import compare
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary

KINDS = ("embeddings", "ids")
EVERY = 16  # sentences from one golden one to the next: few enough that their words flatter no cache
_BLOCK = 32  # sentences that a thread embeds at a time


@dataclass(frozen=True)
class Inputs:
    """Sentences of one length, every 16th of them a golden one, in turn.

    `tokens` holds n sentences, `values` [n, dimension, length] the same embedded, page-locked where there
    is a GPU. `logits` [goldens, labels] are those of the golden sentences, in order.
    """

    tokens: TokenBatch
    values: Floats
    logits: Floats
    origin: str

    def __len__(self) -> int:
        return len(self.tokens)

    def starts(self, count: int) -> range:
        """Where the windows of `count` sentences begin that take turns; each begins with a golden one."""
        return range(0, len(self) - count + 1, -(-count // EVERY) * EVERY)

    def batches(self, kind: str, start: int, count: int, size: int, *, copied: bool = False) -> list[Batch]:
        """A window in batches of `size`; embeddings `copied` lie in ordinary memory."""
        batch: Batch = self.tokens.rows(start, start + count)
        if kind == "embeddings":
            values = self.values[start : start + count]
            batch = EmbeddingBatch(values.copy() if copied else values)
        return [batch.rows(i, min(i + size, count)) for i in range(0, count, size)]

    def error(self, start: int, found: Floats, tolerance: float) -> float:
        """The largest error of a window's golden sentences in its logits [count, labels].

        AccelError if it is larger than `tolerance`.
        """
        places = np.arange(0, len(found), EVERY)
        expected = self.logits[(start + places) // EVERY % len(self.logits)]
        worst = compare(found[places], expected, tolerance)
        if not worst.passed:
            raise AccelError(f"other logits than the golden ones in the run that is timed: {worst}")
        return worst.error


def make_inputs(spec: ModelSpec, weights: Weights, golden: Golden, count: int, *, locked: bool) -> Inputs:
    """`count` sentences by Zipf's law; `locked` says whether the embeddings go into page-locked memory."""
    assert spec.length is not None
    vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
    sentences = generated(spec, vocabulary, count)
    tokens = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens).encode(sentences.lines).batch
    ids = tokens.ids.reshape(count, spec.length).copy()
    known = golden.batch.ids.reshape(-1, spec.length)
    ids[::EVERY] = known[np.arange(len(ids[::EVERY])) % len(known)]
    values = _room((count, spec.embedding, spec.length), locked=locked)
    _embed(weights.embedding, ids, values)
    origin = f"{sentences.origin}; every {EVERY}th is a golden one"
    return Inputs(replace(tokens, ids=ids.ravel()), values, golden.layers["logits"], origin)


def _room(shape: tuple[int, ...], *, locked: bool) -> Floats:
    if not locked:
        return np.empty(shape, np.float32)
    with translated(f"page-locking {4 * np.prod(shape, dtype=float) / 1e9:.1f} GB of embeddings"):
        return page_locked(shape, "float32")


def _embed(table: Floats, ids: npt.NDArray[np.int32], values: Floats) -> None:
    """values [n, dimension, length] = rows of the table, channel first, by all cores."""

    def fill(first: int) -> None:
        part = slice(first, first + _BLOCK)
        values[part] = table[ids[part]].transpose(0, 2, 1)

    with ThreadPoolExecutor(cores()) as workers:
        for _ in workers.map(fill, range(0, len(ids), _BLOCK)):
            pass
