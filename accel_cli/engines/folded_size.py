"""What a folded table is made of on a CUDA device, and what it takes of the device's memory."""

from __future__ import annotations

from accel_cli.kernels.folded_layout import Layout, TableType, slice_of
from accel_cli.model.config import ModelSpec

_ROOM = 256 << 20  # bytes of table values in fp32 while a table is made, unless one slice takes more


def table_of(precision: str) -> TableType:
    """As what a precision stores the table's values."""
    return TableType.FP32 if precision in ("fp32", "fp32-split") else TableType.FIXED


def layout_of(spec: ModelSpec, table: TableType) -> Layout:
    """How a network's table lies; ValueError if no kernel takes its widths."""
    return Layout(table, spec.vocabulary_size, spec.widths, spec.filters)


def table_bytes(spec: ModelSpec, table: TableType) -> int:
    """What the table takes of the device's memory, for as long as the engine lives."""
    return layout_of(spec, table).bytes


def load_bytes(spec: ModelSpec, table: TableType) -> int:
    """What making it takes at most, the table included: words, and weights and values of some filters."""
    rows = max(width * filters_at_once(spec, table, width) for width in spec.widths)
    values = 2 * spec.embedding + spec.vocabulary_size  # weights as they come and packed, products
    return table_bytes(spec, table) + 4 * (spec.vocabulary_size * spec.embedding + rows * values)


def filters_at_once(spec: ModelSpec, table: TableType, width: int) -> int:
    """Of a width while the table is made: whole slices that fit the room, one at least, or all filters."""
    size = slice_of(table, spec.filters)
    fitting = _ROOM // (4 * width * spec.vocabulary_size * size) * size
    return min(spec.filters, max(size, fitting))
