"""Folded tables: what their values are stored as, and where they lie. See kernels_cu/folded_types.cuh."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Any

import numpy as np

from accel_cli.kernels.base import ceil_div, check_shape

LINE = 128  # bytes of a line of the level-1 cache
WIDEST = 30  # the widest convolution there may be


class TableType(IntEnum):
    """What a value is stored as; FIXED is whole numbers of 16 bits, with a scale for each filter."""

    FP32 = 0
    FP16 = 1
    FIXED = 2


TABLE_DTYPES = {TableType.FP32: "float32", TableType.FP16: "float16", TableType.FIXED: "uint16"}


def row_bytes(filters: int, size: int) -> int:
    """What a slice has of a row of filters of `size` bytes: as many lines as it fills, 4 at most."""
    return next((lines * LINE for lines in (4, 2) if filters * size % (lines * LINE) == 0), LINE)


def slice_of(table: TableType, filters: int) -> int:
    """Filters of a slice."""
    size = np.dtype(TABLE_DTYPES[table]).itemsize
    return row_bytes(filters, size) // size


@dataclass(frozen=True)
class Layout:
    """The values of all widths: [slices, vocabulary, width, slice] for each, end to end.

    A slice is as many filters as have `row_bytes`; there are zeros behind the last one's.
    """

    type: TableType
    vocabulary: int
    widths: tuple[int, ...]
    filters: int

    def __post_init__(self) -> None:
        """ValueError for a width that no kernel takes."""
        if not 1 <= min(self.widths) <= max(self.widths) <= WIDEST:
            raise ValueError(f"a folded table of widths {self.widths}, expected 1 to {WIDEST}")

    @property
    def row_bytes(self) -> int:
        """Of a row of a slice."""
        return row_bytes(self.filters, np.dtype(TABLE_DTYPES[self.type]).itemsize)

    @property
    def slice_filters(self) -> int:
        """Filters of a slice."""
        return slice_of(self.type, self.filters)

    @property
    def slices(self) -> int:
        """Of each width."""
        return ceil_div(self.filters, self.slice_filters)

    @property
    def taps(self) -> list[int]:
        """Of all widths before each, and of all."""
        return [0, *accumulate(self.widths)]

    @property
    def bytes(self) -> int:
        """Of all values."""
        return self.taps[-1] * self.slices * self.vocabulary * self.row_bytes

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.taps[-1] * self.slices * self.vocabulary * self.slice_filters

    def place(self, kind: int, first: int, filters: int) -> slice:
        """Where the values lie of so many filters of width number `kind`, from the first of a slice on."""
        size, width = self.slice_filters, self.widths[kind]
        start = self.taps[kind] * self.slices + first // size * width
        end = start + ceil_div(filters, size) * width
        return slice(start * self.vocabulary * size, end * self.vocabulary * size)


@dataclass(frozen=True)
class Table:
    """A table on the device.

    `values` [layout.size]; `taps` int32 [kinds + 1] as the layout has them; `scale` and `after`
    [kinds * filters]: what a filter's sum is multiplied by, with FIXED only, and what is added to it.
    """

    layout: Layout
    values: Any
    taps: Any
    after: Any
    scale: Any

    def __post_init__(self) -> None:
        """ValueError unless all have the shapes that the layout asks for."""
        layout = self.layout
        columns = (len(layout.widths) * layout.filters,)
        check_shape("folded table", self.values.shape, (layout.size,))
        check_shape("folded table taps", self.taps.shape, (len(layout.taps),))
        check_shape("folded table after", self.after.shape, columns)
        check_shape("folded table scale", self.scale.shape, columns)
