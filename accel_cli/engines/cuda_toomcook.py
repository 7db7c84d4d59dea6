"""Toom-Cook convolution on a CUDA device: few products for all widths together (see model.toomcook)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from accel_cli.cuda.buffers import empty, zero
from accel_cli.cuda.device import cupy
from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_convolution import Sentences, WindowLists
from accel_cli.engines.cuda_products import Products
from accel_cli.kernels.base import Runner, ceil_div
from accel_cli.kernels.sgemm import sgemm_batched
from accel_cli.kernels.toomcook_input import Chunks, toomcook_channels, toomcook_ids
from accel_cli.kernels.toomcook_output import toomcook_output
from accel_cli.kernels.toomcook_weights import toomcook_weights
from accel_cli.kernels.windows import count_windows
from accel_cli.model.config import ModelSpec
from accel_cli.model.toomcook import toom_cook
from accel_cli.model.weights import Weights


class Points(Protocol):
    """Multiplies at all points: a batch of products of one shape."""

    def load(self, weights: Any, largest: float) -> None:
        """Take over weights [points, dimension, row] on the device; `largest` bounds their magnitudes."""
        ...

    def buffer(self, rows: int) -> Any:
        """Room for what it needs for so many rows over all points, beside v and m."""
        ...

    def __call__(self, v: Any, buffer: Any, m: Any) -> None:
        """m [points, chunks, row] = v [points, chunks, dimension] times the weights, all in fp32."""
        ...


class SgemmPoints:
    """In fp32."""

    def __init__(self, products: Products, run: Runner) -> None:
        self._products, self._run = products, run

    def load(self, weights: Any, largest: float) -> None:
        """They are read as they are."""
        self._weights = weights

    def buffer(self, rows: int) -> None:
        """Nothing."""

    def __call__(self, v: Any, buffer: None, m: Any) -> None:
        """One launch."""
        points, chunks, dimension = v.shape
        tile = self._products.tiles.choose(chunks, m.shape[2], dimension, points)
        sgemm_batched(self._run, v, self._weights, m, tile=tile)


class ToomCook:
    """Transformed sentences times transformed weights, one product for each point."""

    def __init__(self, spec: ModelSpec, weights: Weights, points: Points, run: Runner) -> None:
        self._spec, self._points, self._run = spec, points, run
        self._table = cupy().asarray(weights.embedding)
        self._transform = transform = toom_cook(spec.max_tokens, spec.widths)
        self._row = ceil_div(spec.features, 4) * 4
        self._inputs = cupy().asarray(transform.inputs.astype(np.float32))
        self._outputs = cupy().asarray(transform.stacked_outputs())
        self._widths = cupy().asarray(np.array(spec.widths, np.int32))
        self._bias = cupy().asarray(np.concatenate([layer.bias for layer in weights.convolutions]))
        transformed, largest = empty(transform.products, spec.embedding, self._row), 0.0
        if self._row != spec.features:
            zero(transformed)
        for number, (layer, matrix) in enumerate(zip(weights.convolutions, transform.weights, strict=True)):
            weight = cupy().asarray(np.ascontiguousarray(layer.weight))
            toomcook_weights(run, weight, cupy().asarray(matrix), transformed, number * spec.filters)
            most = np.abs(matrix).reshape(transform.products, -1).sum(axis=1).max()
            largest = max(largest, float(most * np.abs(layer.weight).max()))
        points.load(transformed, largest)

    def buffers(self, sentences: int, tokens: int) -> Any:
        """Chunks, transformed sentences, products."""
        chunks = self._most_chunks(sentences, tokens)
        points = self._transform.products
        transformed = empty(points * chunks * self._spec.embedding)
        product = empty(points * chunks * self._row)
        return WindowLists.room(chunks), transformed, product, self._points.buffer(points * chunks)

    def _most_chunks(self, sentences: int, tokens: int) -> int:
        """A sentence has one, and one more for each further `step` tokens, begun or whole."""
        if self._spec.length:
            return sentences * count_windows([self._spec.length], self._spec.widest, self._transform.step)
        return sentences + tokens // self._transform.step

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Three kernels beside the product: chunks, and the transforms before and after."""
        lists, transformed, product, rest = buffers
        spec, run, transform = self._spec, self._run, self._transform
        starts, owners = lists.fill(run, part, spec.widest, transform.step)
        chunks = Chunks(starts, owners, part.offsets, transform.step)
        points, count = transform.products, len(starts)
        v = transformed[: points * count * spec.embedding].reshape(points, count, spec.embedding)
        if part.values is None:
            toomcook_ids(run, part.ids, self._table, chunks, self._inputs, v)
        else:
            toomcook_channels(run, part.values, chunks, self._inputs, v)
        m = product[: points * count * self._row].reshape(points, count, self._row)
        self._points(v, rest, m)
        zero(features)
        toomcook_output(run, m, self._bias, self._outputs, self._widths, chunks, features)
