"""Convolution, ReLU and maximum over time on the CPU: folded into table rows, or through im2col."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, EmbeddingBatch, Floats, Ints, TokenBatch
from accel_cli.errors import DeviceError
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import tap_matrix
from accel_cli.model.weights import Weights

ROWS = 32  # rows of every matrix product: see product()
_CACHED = 1 << 18  # floats of a working array: small enough for the caches, large enough to hide the calls
_NEW_WORDS = 256  # words whose table rows are made at a time

Positions = npt.NDArray[np.intp]


def product(rows: Floats, matrix: Floats) -> Floats:
    """rows [n, k] times matrix [k, m], always in blocks of ROWS rows.

    BLAS chooses the order of its sums by the shape of the product. With one shape for every batch, a
    sentence's result does not depend on how many others are computed with it; its place in the block
    may still show in the last bits.
    """
    count, inputs = rows.shape
    blocks = -(-count // ROWS)
    if blocks * ROWS != count:
        padded = np.zeros((blocks * ROWS, inputs), dtype=np.float32)
        padded[:count] = rows
        rows = padded
    result: Floats = np.matmul(rows.reshape(blocks, ROWS, inputs), matrix)
    return result.reshape(blocks * ROWS, -1)[:count]


class FoldedConvolution:
    """Convolutions as sums of table rows (rewrite 1 of model.folding).

    A word gets a place in the tables when it first turns up, and keeps it. So the tables take memory
    for the words that the text really holds, and frequent words, which turn up early, lie together.
    """

    def __init__(self, spec: ModelSpec, weights: Weights) -> None:
        self._spec = spec
        self._embedding = weights.embedding
        self._matrix = tap_matrix(weights.convolutions)
        self._bias = np.concatenate([layer.bias for layer in weights.convolutions])
        self._places = np.full(spec.vocabulary_size, -1, dtype=np.intp)
        self._taken = 0
        self._making = threading.Lock()
        shape = (spec.taps, spec.vocabulary_size, spec.filters)
        try:
            self._tables: Floats = np.empty(shape, dtype=np.float32)  # memory is taken as rows are written
        except MemoryError:
            raise DeviceError(
                f"no memory for the folded tables ({np.prod(shape) * 4 / 2**30:.1f} GiB);"
                " use a plan with `convolution: im2col`"
            ) from None

    def features(self, batch: Batch) -> Floats:
        """Pooled features [sentences, widths * filters] of sentences that are sorted by length."""
        if not isinstance(batch, TokenBatch):
            raise DeviceError("folded tables take no embeddings; open the engine with embeddings=True")
        places = self._places[batch.ids]
        if places.min() < 0:
            self._make_rows(batch.ids)
            places = self._places[batch.ids]
        out = np.empty((len(batch), self._spec.features), dtype=np.float32)
        lengths = batch.lengths.astype(np.intp)
        for start, stop in _chunks(batch.offsets, _CACHED // self._spec.filters):
            self._pool(places, batch.offsets[start:stop], lengths[start:stop], out[start:stop])
        out += self._bias
        return np.maximum(out, 0.0, out=out)

    def _pool(self, places: Positions, offsets: Ints, lengths: Positions, out: Floats) -> None:
        """The largest sum of table rows over the windows of each sentence, into `out`.

        The sums are taken over the windows of all sentences at once, the maxima over those of each length.
        """
        filters, tap, column = self._spec.filters, 0, 0
        runs = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
        for width in self._spec.widths:
            counts = lengths - (width - 1)
            ends = counts.cumsum()
            windows = np.arange(ends[-1]) + (offsets - ends + counts).repeat(counts)
            sums = np.empty((len(windows), filters), dtype=np.float32)
            rows = np.empty_like(sums)
            self._tables[tap].take(places.take(windows), axis=0, out=sums, mode="clip")
            for j in range(1, width):
                windows += 1
                self._tables[tap + j].take(places.take(windows), axis=0, out=rows, mode="clip")
                sums += rows
            first = 0
            for start, stop in pairwise(runs):
                last = int(ends[stop - 1])
                alike = sums[first:last].reshape(stop - start, -1, filters)
                alike.max(axis=1, out=out[start:stop, column : column + filters])
                first = last
            tap, column = tap + width, column + filters

    def _make_rows(self, ids: npt.NDArray[np.integer]) -> None:
        """Make the table rows of all words of `ids` that have none yet."""
        with self._making:
            words = np.flatnonzero(
                np.bincount(ids[self._places[ids] < 0])
            )  # np.unique imports all of numpy.ma
            for first in range(0, len(words), _NEW_WORDS):
                some = words[first : first + _NEW_WORDS]
                rows = product(self._embedding[some], self._matrix).reshape(len(some), self._spec.taps, -1)
                end = self._taken + len(some)
                self._tables[:, self._taken : end] = rows.transpose(1, 0, 2)
                self._places[some] = np.arange(self._taken, end)  # last: other threads look here
                self._taken = end


class Im2colConvolution:
    """Convolutions as matrix products over unrolled windows, for tokens and for embeddings."""

    def __init__(self, spec: ModelSpec, weights: Weights) -> None:
        self._spec = spec
        self._embedding = weights.embedding
        # [width * dimension, filters]: a window is laid out token by token
        self._matrices = [
            np.ascontiguousarray(layer.weight.transpose(2, 1, 0).reshape(-1, spec.filters))
            for layer in weights.convolutions
        ]
        self._bias = np.concatenate([layer.bias for layer in weights.convolutions])

    def features(self, batch: Batch) -> Floats:
        """Pooled features [sentences, widths * filters]."""
        out = np.empty((len(batch), self._spec.features), dtype=np.float32)
        for index in range(len(batch)):
            self._pool(self._sentence(batch, index), out[index])
        out += self._bias
        return np.maximum(out, 0.0, out=out)

    def _sentence(self, batch: Batch, index: int) -> Floats:
        if isinstance(batch, EmbeddingBatch):
            return np.ascontiguousarray(batch.values[index].T)
        return self._embedding[batch.ids[batch.offsets[index] : batch.offsets[index + 1]]]

    def _pool(self, sentence: Floats, out: Floats) -> None:
        filters, dimension = self._spec.filters, self._spec.embedding
        for number, width in enumerate(self._spec.widths):
            windows = np.lib.stride_tricks.sliding_window_view(sentence.ravel(), width * dimension)[
                ::dimension
            ]
            sums = product(windows, self._matrices[number])
            sums.max(axis=0, out=out[number * filters : (number + 1) * filters])


def _chunks(offsets: Ints, tokens: int) -> Iterator[tuple[int, int]]:
    """Cut sentences into consecutive ones of at most `tokens` tokens all together, or one sentence."""
    start = 0
    while start < len(offsets) - 1:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + tokens, side="right")) - 1)
        yield start, stop
        start = stop
