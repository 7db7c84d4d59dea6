"""Folded convolution on a CUDA device: a table of what each word adds to a window, made at load."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.cuda.buffers import empty, uploaded
from accel_cli.cuda.device import cupy
from accel_cli.cuda.streams import Branches
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_convolution import Sentences
from accel_cli.engines.folded_size import filters_at_once, layout_of
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.values import Values
from accel_cli.kernels.base import Runner, ceil_div
from accel_cli.kernels.folded_convolution import folded_convolution, packs_features
from accel_cli.kernels.folded_layout import TABLE_DTYPES, Layout, Table, TableType
from accel_cli.kernels.folded_scale import folded_scale
from accel_cli.kernels.folded_table import folded_table
from accel_cli.kernels.pack_taps import pack_taps
from accel_cli.kernels.sgemm import sgemm
from accel_cli.kernels.tensor_operands import Output
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights


class FoldedConvolution:
    """Sums of table rows in one kernel for all widths; `buffers` and Branches are not needed."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, table: TableType, tiles: Tiles, run: Runner
    ) -> None:
        self._run = run
        self._tiles = tiles
        self._table = _Folding(spec, weights, layout_of(spec, table), tiles, run).table

    def packs(self, output: Output) -> bool:
        """Whether features can be stored as a packed operand."""
        return packs_features(self._table.layout, output)

    def buffers(self, sentences: int, tokens: int) -> None:
        """Nothing is kept between the words and the features."""

    def __call__(
        self, part: Sentences, buffers: None, features: Values, branches: Branches, observe: Observe
    ) -> None:
        """One launch, which stores the features as they are to be read."""
        spread = self._tiles.spread(self._table.layout, len(part))
        folded_convolution(
            *(self._run, part.ids, part.offsets, self._table, features.array, features.output),
            spread=spread,
            packed=features.packed,
        )


class _Folding:
    """Makes a table, some filters of a width at a time: products in fp32, then rounded once."""

    def __init__(self, spec: ModelSpec, weights: Weights, layout: Layout, tiles: Tiles, run: Runner) -> None:
        self._run, self._tiles, self._layout = run, tiles, layout
        self._words = uploaded(weights.embedding)
        columns = len(spec.widths) * spec.filters
        after = cupy().asarray(np.concatenate([layer.bias for layer in weights.convolutions]))
        fixed = layout.type == TableType.FIXED
        self.table = Table(
            layout,
            values=empty(layout.size, dtype=TABLE_DTYPES[layout.type]),
            taps=cupy().asarray(np.array(layout.taps, np.int32)),
            after=empty(columns) if fixed else after,
            scale=empty(columns) if fixed else after,
        )
        for kind, layer in enumerate(weights.convolutions):
            step = filters_at_once(spec, layout.type, spec.widths[kind])
            for first in range(0, spec.filters, step):
                weight = layer.weight[first : first + step]
                at = slice(kind * spec.filters + first, kind * spec.filters + first + len(weight))
                part = self.table.values[layout.place(kind, first, len(weight))]
                self._round(self._product(weight), after[at], at, part)

    def _product(self, weight: Any) -> Any:
        """What each word adds at each tap: [width, words, filters]."""
        filters, dimension, width = weight.shape
        row, words = ceil_div(filters, 4) * 4, len(self._words)
        packed = empty(width * dimension, row)
        pack_taps(self._run, uploaded(weight), packed)
        product = empty(width, words, filters)
        tile = self._tiles.choose(words, filters, dimension)
        for tap, y in zip(packed.reshape(width, dimension, row), product, strict=True):
            sgemm(self._run, self._words, tap, None, y, tile=tile)
        return product

    def _round(self, product: Any, bias: Any, at: slice, part: Any) -> None:
        """Store it as the table's type; `at` are its columns among those of all widths."""
        width, _, filters = product.shape
        lowest, scale = None, None
        if self._layout.type == TableType.FIXED:
            lowest, scale = empty(width, filters), self.table.scale[at]
            folded_scale(self._run, product, bias, lowest, scale, self.table.after[at])
        folded_table(self._run, product, part, self._layout.type, lowest, scale)
