"""Which tile of which kernel serves a product on tensor cores: a rule of thumb.

Each tile adds up an output's terms in the same order as the others of its kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from accel_cli.cuda.device import DeviceFacts
from accel_cli.engines.tuned import Product
from accel_cli.kernels import mma_gemm, wgmma_gemm
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.mma_gemm import MmaTile
from accel_cli.kernels.sgemm_tile import shared_limit
from accel_cli.kernels.tensor_operands import Operands
from accel_cli.kernels.tensor_tile import Source
from accel_cli.kernels.wgmma_gemm import WgmmaTile

# How well each does on a product that fills the device, about, as tried on an H200.
_USUAL: dict[str, dict[WgmmaTile | MmaTile, float]] = {
    "wgmma": {
        wgmma_gemm.PAIR: 1.01,
        wgmma_gemm.LARGE: 1.0,
        wgmma_gemm.DEFAULT: 0.92,
        wgmma_gemm.SPLIT: 0.8,
        wgmma_gemm.SMALL: 0.78,
        wgmma_gemm.NARROW: 0.68,
        wgmma_gemm.SHORT: 0.65,
        wgmma_gemm.TINY: 0.5,
    },
    "mma": {
        mma_gemm.LARGE: 1.0,
        mma_gemm.DEFAULT: 0.95,
        mma_gemm.SHALLOW: 0.9,
        mma_gemm.SMALL: 0.7,
        mma_gemm.TIGHT: 0.65,
    },
}


class TensorTiles:
    """The tiles of one kernel, "wgmma" or "mma", for the products of one device."""

    def __init__(self, kernel: str, device: DeviceFacts) -> None:
        self._processors, self._limit = device.processors, shared_limit(device.capability)
        self._usual = {_staying(tile, device.processors): share for tile, share in _USUAL[kernel].items()}

    def choose(
        self,
        rows: int,
        columns: int,
        operands: Operands,
        source: Source = Source.MATRIX,
        *,
        batch: int = 1,
    ) -> WgmmaTile | MmaTile:
        """The tile for `batch` products [rows, columns] of rows of a kind."""
        product = Product(rows, columns, 1, batch)
        return self.best(operands, source, lambda tile: self._alone(tile, product))

    def choose_for_all(
        self, products: Sequence[Product], operands: Operands, source: Source
    ) -> WgmmaTile | MmaTile:
        """The one tile for products that run side by side, the deepest first."""
        return self.best(operands, source, lambda tile: self._side_by_side(tile, products))

    def best(
        self, operands: Operands, source: Source, work: Callable[[WgmmaTile | MmaTile], float]
    ) -> WgmmaTile | MmaTile:
        """The legal tile by which the processor that has most to multiply is done first."""
        return min(self.legal(operands, source), key=lambda tile: work(tile) / self._usual[tile])

    def legal(self, operands: Operands, source: Source) -> list[WgmmaTile | MmaTile]:
        """Those that such operands may take."""
        return [tile for tile in self._usual if tile.legal(operands, self._limit, source)]

    def _alone(self, tile: WgmmaTile | MmaTile, product: Product) -> float:
        """Multiplications of the processor that has most, for a step of k: it takes one block at a time.

        Blocks of a cluster wait for each other, which pays where each makes tile after tile.
        """
        rounds = ceil_div(_blocks(tile, product), self._processors)
        return math.inf if rounds == 1 and _cluster(tile) > 1 else rounds * _area(tile)

    def _side_by_side(self, tile: WgmmaTile | MmaTile, products: Sequence[Product]) -> float:
        """The same for all of k: it takes blocks as it comes free.

        The last one of all is among the shortest, and begins when the others are half through theirs, about.
        """
        work = sum(_blocks(tile, product) * product.depth for product in products) / self._processors
        depths = [product.depth for product in products]
        return max(max(depths), work + min(depths) / 2) * _area(tile)


def _cluster(tile: WgmmaTile | MmaTile) -> int:
    return tile.cluster if isinstance(tile, WgmmaTile) else 1


def _area(tile: WgmmaTile | MmaTile) -> int:
    return tile.rows * tile.columns


def _blocks(tile: WgmmaTile | MmaTile, product: Product) -> int:
    """Whole clusters of them."""
    cluster = _cluster(tile)
    down = ceil_div(max(product.rows, 1), tile.rows * cluster) * cluster
    return product.batch * down * ceil_div(product.columns, tile.columns)


def _staying(tile: WgmmaTile | MmaTile, processors: int) -> WgmmaTile | MmaTile:
    """With one block a processor, which brings what its next tile needs while it ends the last one."""
    return replace(tile, blocks=processors) if isinstance(tile, WgmmaTile) else tile
