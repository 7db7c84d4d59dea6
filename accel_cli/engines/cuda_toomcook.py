"""Toom-Cook convolution on a CUDA device: few products for all widths together (see model.toomcook)."""

from __future__ import annotations

from typing import Any

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


class ToomCook:
    """Transformed sentences times transformed weights, one product for each point."""

    def __init__(self, spec: ModelSpec, weights: Weights, products: Products, run: Runner) -> None:
        self._spec, self._products, self._run = spec, products, run
        self._table = cupy().asarray(weights.embedding)
        self._transform = transform = toom_cook(spec.max_tokens, spec.widths)
        self._row = ceil_div(spec.features, 4) * 4
        self._inputs = cupy().asarray(transform.inputs.astype(np.float32))
        self._outputs = cupy().asarray(transform.stacked_outputs())
        self._widths = cupy().asarray(np.array(spec.widths, np.int32))
        self._bias = cupy().asarray(np.concatenate([layer.bias for layer in weights.convolutions]))
        self._weights = empty(transform.products, spec.embedding, self._row)
        if self._row != spec.features:
            zero(self._weights)
        for number, (layer, matrix) in enumerate(zip(weights.convolutions, transform.weights, strict=True)):
            weight = cupy().asarray(np.ascontiguousarray(layer.weight))
            toomcook_weights(run, weight, cupy().asarray(matrix), self._weights, number * spec.filters)

    def buffers(self, sentences: int, tokens: int) -> Any:
        """Chunks, transformed sentences, products."""
        chunks = self._most_chunks(sentences, tokens)
        points = self._transform.products
        transformed = empty(points * chunks * self._spec.embedding)
        return WindowLists.room(chunks), transformed, empty(points * chunks * self._row)

    def _most_chunks(self, sentences: int, tokens: int) -> int:
        """A sentence has one, and one more for each further `step` tokens, begun or whole."""
        if self._spec.length:
            return sentences * count_windows([self._spec.length], self._spec.widest, self._transform.step)
        return sentences + tokens // self._transform.step

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Three kernels beside the product: chunks, and the transforms before and after."""
        lists, transformed, product = buffers
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
        tile = self._products.tiles.choose(count, self._row, spec.embedding, points)
        sgemm_batched(run, v, self._weights, m, tile=tile)
        zero(features)
        toomcook_output(run, m, self._bias, self._outputs, self._widths, chunks, features)
