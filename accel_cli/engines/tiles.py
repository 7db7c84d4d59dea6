"""Which tile of sgemm serves a product: what tuning found on this device, else a rule of thumb.

Every tile adds up an output's terms in the same order, so the choice changes no bit of any result.
"""

from __future__ import annotations

import math

from accel_cli.cuda.device import DeviceFacts
from accel_cli.engines.tuned import Product, findings
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.sgemm_tile import USUAL, Tile, shared_limit

_BUSY = 256  # threads that keep a processor busy while some of them wait


class Tiles:
    """The tiles for the products of one device."""

    def __init__(self, device: DeviceFacts) -> None:
        self._processors = device.processors
        self._tuned = list(findings(device))
        limit = shared_limit(device.capability)
        self._usual = {tile: factor for tile, factor in USUAL.items() if tile.legal(limit)}

    def choose(self, rows: int, columns: int, depth: int, batch: int = 1) -> Tile:
        """The tile for `batch` products of [rows, depth] and [depth, columns]."""
        product = Product(max(rows, 1), columns, depth, batch)
        for tuned in self._tuned:
            tile = tuned.nearest(product)
            if tile is not None:
                return tile
        return max(self._usual, key=lambda tile: self.predicted(tile, product) * self._usual[tile])

    def predicted(self, tile: Tile, product: Product) -> float:
        """The share of the device's work that a tile turns into results, judged by its blocks alone."""
        blocks = product.batch * ceil_div(product.rows, tile.rows) * ceil_div(product.columns, tile.columns)
        most = ceil_div(blocks, self._processors)  # blocks of the processor that has most
        done = most * self._processors * tile.rows * tile.columns
        busy = min(1.0, math.sqrt(most * tile.threads / _BUSY))
        return busy * product.batch * product.rows * product.columns / done
