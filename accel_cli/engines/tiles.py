"""What a device's size decides: which tile serves a product, by tuning or a rule of thumb, and the like.

Every tile adds up an output's terms in the same order, so the choice changes no bit of any result.
"""

from __future__ import annotations

import math

from accel_cli.cuda.device import DeviceFacts
from accel_cli.engines.tensor_tiles import TensorTiles
from accel_cli.engines.tuned import Kind, Product, findings
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.folded_convolution import spread_of
from accel_cli.kernels.folded_layout import Layout
from accel_cli.kernels.sgemm_tile import USUAL, Tile, shared_limit


class Tiles:
    """The tiles for the products of one device, and what else depends on how many processors it has."""

    def __init__(self, device: DeviceFacts) -> None:
        self.device = device
        self._processors = device.processors
        self._limit = shared_limit(device.capability)
        self._tuned = list(findings(device))
        self._usual = {tile: factor for tile, factor in USUAL.items() if tile.legal(self._limit)}

    def all(self) -> list[Tile]:
        """Whatever may be chosen; first those that take longest to compile: that make most a thread."""
        known = [one.tile for tuned in self._tuned for one in tuned.products]
        return sorted({*known, *self._usual}, key=lambda tile: -tile.thread_rows * tile.thread_columns)

    def tensor(self, kernel: str) -> TensorTiles:
        """Those of "wgmma" or "mma", for products on tensor cores."""
        return TensorTiles(kernel, self.device)

    def choose(self, rows: int, columns: int, depth: int, batch: int = 1, kind: Kind = "plain") -> Tile:
        """The tile for `batch` products of [rows, depth] and [depth, columns], of a kind."""
        product = Product(max(rows, 1), columns, depth, batch, kind)
        for tuned in self._tuned:
            tile = tuned.nearest(product)
            if tile is not None:
                return tile
        return max(self._usual, key=lambda tile: self.predicted(tile, product) * self._usual[tile])

    def spread(self, layout: Layout, sentences: int) -> int:
        """How many groups of threads share a sentence's windows in the folded convolution."""
        return spread_of(layout, sentences, self._processors)

    def predicted(self, tile: Tile, product: Product) -> float:
        """The share of the device's work that a tile turns into results, judged by its blocks alone.

        The processor that has most blocks takes as many at once as it holds; the last ones may be fewer, and
        then leave it idle now and then.
        """
        blocks = product.batch * ceil_div(product.rows, tile.rows) * ceil_div(product.columns, tile.columns)
        most = ceil_div(blocks, self._processors)  # blocks of the processor that has most
        held = tile.resident(self._limit)
        rounds, rest = divmod(most, held)
        last = rest / _busy(rest * tile.threads) if rest else 0.0
        time = rounds * held / _busy(held * tile.threads) + last
        outputs = product.batch * product.rows * product.columns
        return outputs / (time * self._processors * tile.rows * tile.columns)


def _busy(threads: int) -> float:
    """The share of its time that a processor computes: each of its four schedulers wants two warps."""
    return min(1.0, threads / 128) * math.pow(min(1.0, threads / 256), 0.2)
