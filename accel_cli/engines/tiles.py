"""Which tile of sgemm serves a product: what tuning found on this device, else a rule of thumb."""

from __future__ import annotations

from accel_cli.cuda.device import DeviceFacts
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.sgemm import DEFAULT, SMALL, Tile


class Tiles:
    """The tiles for the products of one device."""

    def __init__(self, device: DeviceFacts) -> None:
        self._processors = device.processors

    def choose(self, rows: int, columns: int, depth: int, batch: int = 1) -> Tile:
        """The tile for `batch` products of [rows, depth] and [depth, columns]."""
        blocks = batch * ceil_div(rows, DEFAULT.rows) * ceil_div(columns, DEFAULT.columns)
        return DEFAULT if blocks >= self._processors else SMALL
