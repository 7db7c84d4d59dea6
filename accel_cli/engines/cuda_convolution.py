"""Convolution, ReLU and maximum over time on a CUDA device: one class for each way to compute it.

Each makes room for a batch with `buffers`, and writes features [sentences, widths * filters] when called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from accel_cli.batches import Ints
from accel_cli.cuda.buffers import empty, zero
from accel_cli.cuda.device import cupy
from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_products import Dense, Products
from accel_cli.kernels.base import Runner
from accel_cli.kernels.concat import concat
from accel_cli.kernels.conv1d import conv1d
from accel_cli.kernels.embedding import embedding
from accel_cli.kernels.getmax import getmax
from accel_cli.kernels.im2col import im2col
from accel_cli.kernels.relu import relu
from accel_cli.kernels.sgemm import sgemm_ids, sgemm_windows
from accel_cli.kernels.sgemm_tile import STEP
from accel_cli.kernels.transpose import transpose
from accel_cli.kernels.window_max import window_max
from accel_cli.kernels.windows import count_windows, windows
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights


@dataclass(frozen=True)
class Sentences:
    """Sentences on the device, as `ids` [tokens] or as `values` [sentences, dimension, length].

    Sentence i begins at offsets[i]. `known` are the offsets on the host, which are not known of text that the
    device has read.
    """

    offsets: Any
    known: Ints | None = None
    ids: Any = None
    values: Any = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ints:
        """Tokens of each, on the host."""
        assert self.known is not None, "only the device knows the lengths"
        return np.diff(self.known)

    @property
    def tokens(self) -> int:
        """Of all sentences."""
        return int(self.lengths.sum())


class Convolution(Protocol):
    """A way to compute the features."""

    def buffers(self, sentences: int, tokens: int) -> Any:
        """Room for at most so many sentences and tokens."""
        ...

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Enqueue the kernels of a batch."""
        ...


class Words:
    """The embedded sentences, token-major."""

    def __init__(self, weights: Weights, run: Runner) -> None:
        self.table = cupy().asarray(weights.embedding)
        self._run = run

    def buffer(self, tokens: int) -> Any:
        """Room for so many."""
        return empty(tokens, self.table.shape[1])

    def __call__(self, part: Sentences, buffer: Any, observe: Observe) -> Any:
        """x [tokens, dimension]: table rows of the ids, or the values with their channels last."""
        x = buffer[: part.tokens]
        if part.values is None:
            embedding(self._run, part.ids, self.table, x)
            observe("embedding", x)
        else:
            sentences, dimension, length = part.values.shape
            transpose(self._run, part.values, x.reshape(sentences, length, dimension))
        return x


@dataclass(frozen=True)
class WindowLists:
    """First token and sentence of each window, for one width."""

    starts: Any
    owners: Any

    @staticmethod
    def room(tokens: int) -> WindowLists:
        """For the windows of so many tokens."""
        return WindowLists(empty(tokens, dtype="int32"), empty(tokens, dtype="int32"))

    def fill(self, run: Runner, part: Sentences, width: int, step: int = 1) -> tuple[Any, Any]:
        """The windows of `width` tokens inside the sentences, `step` apart."""
        count = count_windows(part.lengths, width, step)
        starts, owners = self.starts[:count], self.owners[:count]
        windows(run, part.offsets, width, starts, owners, step)
        return starts, owners


class Direct:
    """One thread an output, then ReLU, maximum and concatenation: a kernel a layer."""

    def __init__(self, spec: ModelSpec, weights: Weights, run: Runner) -> None:
        self._spec, self._run = spec, run
        self._words = Words(weights, run)
        self._layers = [
            (cupy().asarray(layer.weight), cupy().asarray(layer.bias)) for layer in weights.convolutions
        ]

    def buffers(self, sentences: int, tokens: int) -> Any:
        """Embedded words, a convolution's output, its maxima."""
        filters = self._spec.filters
        return self._words.buffer(tokens), empty(tokens, filters), empty(sentences, filters)

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Channel-first values are read where they lie."""
        embedded, convolved, pooled = buffers
        run, y, pooled = self._run, convolved[: part.tokens], pooled[: len(part)]
        if part.values is None:
            x, strides = self._words(part, embedded, observe), (self._spec.embedding, 1)
        else:
            x, strides = part.values, (1, part.values.shape[2])
        for number, (width, layer) in enumerate(zip(self._spec.widths, self._layers, strict=True)):
            conv1d(run, x, *layer, part.offsets, y, strides)
            observe(f"convolution.{width}", y)
            relu(run, y)
            getmax(run, y, part.offsets, pooled, width)
            concat(run, pooled, features, number * self._spec.filters)


class Stored:
    """Windows as rows of a matrix in memory (im2col), then a matrix product for each width."""

    def __init__(self, spec: ModelSpec, weights: Weights, products: Products, run: Runner) -> None:
        self._spec, self._products, self._run = spec, products, run
        self._words = Words(weights, run)
        self._layers = [
            products.prepare(
                np.ascontiguousarray(layer.weight.swapaxes(1, 2)).reshape(spec.filters, -1), layer.bias
            )
            for layer in weights.convolutions
        ]
        self._fused = products.fused and self._layers[0].packed

    def buffers(self, sentences: int, tokens: int) -> Any:
        """Embedded words, windows, columns; their numbers if fused, else products."""
        spec, numbered = self._spec, tokens if self._fused else 0
        columns = empty(tokens, spec.widest * spec.embedding)
        numbers = cupy().asarray(np.arange(numbered, dtype=np.int32))  # CuPy's own arange needs a compiler
        lists = WindowLists.room(tokens)
        return self._words.buffer(tokens), lists, columns, numbers, empty(tokens - numbered, spec.filters)

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Fused, the product's epilogue goes straight on to the features."""
        embedded, lists, room, numbers, product = buffers
        spec, run = self._spec, self._run
        x = self._words(part, embedded, observe)
        zero(features)
        for number, (width, layer) in enumerate(zip(spec.widths, self._layers, strict=True)):
            starts, owners = lists.fill(run, part, width)
            count, depth, column = len(starts), width * spec.embedding, number * spec.filters
            columns = room.reshape(-1)[: count * depth].reshape(count, depth)
            im2col(run, x, starts, columns)
            if self._fused:
                self._pool(columns, numbers[:count], owners, layer, features, column)
            else:
                y = product[:count]
                self._products(columns, layer, y)
                observe(f"convolution.{width}", y)
                relu(run, y)
                window_max(run, y, owners, features, column)

    def _pool(
        self, columns: Any, numbers: Any, owners: Any, layer: Dense, features: Any, column: int
    ) -> None:
        """A stored window is like a token as wide as the window."""
        shape = len(columns), self._spec.filters, columns.shape[1]
        tile = self._products.tiles.choose(*shape, kind="windows")
        places = (numbers, owners, layer.weight, layer.bias)
        sgemm_windows(self._run, columns, *places, features, column, tile=tile)


class Implicit:
    """The same products without the matrix: the kernel's loads find the windows, or gather the words."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, products: Products, run: Runner, *, embeddings: bool
    ) -> None:
        self._spec, self._products, self._run, self._embeddings = spec, products, run, embeddings
        self._words = Words(weights, run)
        self._widest_first = np.argsort(spec.widths)[::-1].tolist()
        self._gathers = spec.embedding % STEP == 0 and weights.embedding.size < 1 << 31  # as sgemm asks
        self._layers = [
            Dense(products.packed(layer.weight), cupy().asarray(layer.bias), True)
            for layer in weights.convolutions
        ]

    def buffers(self, sentences: int, tokens: int) -> Any:
        """Windows of each width, and embedded words, which are needed only where ids cannot be gathered."""
        stored = self._embeddings or not self._gathers
        lists = [WindowLists.room(tokens) for _ in self._spec.widths]
        return lists, self._words.buffer(tokens if stored else 0)

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Widths side by side, the largest product first."""
        lists, embedded = buffers
        spec, run, table = self._spec, self._run, self._words.table
        gathered = part.values is None and self._gathers
        x = None if gathered else self._words(part, embedded, observe)
        zero(features)
        with branches.side_by_side():
            for number in self._widest_first:
                layer, column, width = self._layers[number], number * spec.filters, spec.widths[number]
                with branches.branch(number):
                    found = lists[number].fill(run, part, width)
                    shape = len(found[0]), spec.filters, width * spec.embedding
                    tile = self._products.tiles.choose(*shape, kind="ids" if gathered else "windows")
                    rest = (*found, layer.weight, layer.bias, features, column)
                    if gathered:
                        sgemm_ids(run, part.ids, table, *rest, tile=tile)
                    else:
                        sgemm_windows(run, x, *rest, tile=tile)
