"""Convolution, ReLU and maximum over time on tensor cores, in one kernel a width."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.cuda.buffers import zero
from accel_cli.cuda.device import cupy
from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_convolution import Sentences, WindowLists
from accel_cli.engines.tensor_products import TensorProducts
from accel_cli.engines.tuned import Product
from accel_cli.engines.values import Room, Values
from accel_cli.kernels.base import Runner
from accel_cli.kernels.cast import cast
from accel_cli.kernels.tensor_gemm import tensor_ids, tensor_windows
from accel_cli.kernels.tensor_tile import Source, TensorTile
from accel_cli.kernels.transpose import transpose
from accel_cli.kernels.windows import count_windows
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights


class TensorImplicit:
    """Words are gathered by the product's loads, from the table in the operands' type."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, products: TensorProducts, run: Runner, *, embeddings: bool
    ) -> None:
        self._spec, self._products, self._run, self._embeddings = spec, products, run, embeddings
        self._widest_first = np.argsort(spec.widths)[::-1].tolist()
        words = cupy().asarray(weights.embedding)
        self._table = products.room(*words.shape).rows(len(words))
        cast(run, words, self._table.array, self._table.output)
        self._layers = [
            (products.packed(layer.weight), cupy().asarray(layer.bias)) for layer in weights.convolutions
        ]

    def buffers(self, sentences: int, tokens: int) -> tuple[list[WindowLists], Room]:
        """Windows of each width, and words that come as embeddings."""
        lists = [WindowLists.room(tokens) for _ in self._spec.widths]
        return lists, self._products.room(tokens if self._embeddings else 0, self._spec.embedding)

    def __call__(
        self, part: Sentences, buffers: Any, features: Any, branches: Branches, observe: Observe
    ) -> None:
        """Widths side by side, the largest product first."""
        lists, room = buffers
        spec, run, filters = self._spec, self._run, self._spec.filters
        words = None if part.values is None else self._words(part, room, observe)
        tiles = self._tiles(part, Source.IDS if words is None else Source.WINDOWS, branches)
        zero(features)
        with branches.side_by_side():
            for number in self._widest_first:
                (packed, bias), column = self._layers[number], number * filters
                with branches.branch(number):
                    found = lists[number].fill(run, part, spec.widths[number])
                    rest = (*found, packed, bias, features, column)
                    if words is None:
                        tensor_ids(run, part.ids, self._table.array, *rest, tile=tiles[number])
                    else:
                        tensor_windows(run, words.array, *rest, tile=tiles[number])

    def _tiles(self, part: Sentences, source: Source, branches: Branches) -> list[TensorTile]:
        """Of each width; one for all of them side by side, where one ends its last round beside another."""
        spec, choice, operands = self._spec, self._products.tiles, self._products.operands
        products = [
            Product(count_windows(part.lengths, width), spec.filters, width * spec.embedding)
            for width in spec.widths
        ]
        if branches.several:
            return [choice.choose_for_all(products, operands, source)] * len(products)
        return [choice.choose(one.rows, one.columns, operands, source) for one in products]

    def _words(self, part: Sentences, room: Room, observe: Observe) -> Values:
        """x [tokens, dimension]: the values with their channels last."""
        sentences, _, length = part.values.shape
        x = room.rows(part.tokens)
        *before, _, row = x.array.shape
        transpose(self._run, part.values, x.array.reshape(*before, sentences, length, row), x.output)
        observe("embedding", x)
        return x
