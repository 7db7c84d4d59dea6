"""Host twin of kernels_cu/folded_table.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.folded_layout import TABLE_DTYPES, TableType, row_bytes, slice_of
from accel_cli.kernels.tensor_operands import as_bytes

THREADS = 256

KERNEL = Kernel(
    "folded_table",
    (
        Array("product", "float32"),
        Array("lowest", "float32"),
        Array("scale", "float32"),
        Array("table", "uint8", written=True),
        Scalar("words", "int32"),
        Scalar("width", "int32"),
        Scalar("filters", "int32"),
    ),
)


def geometry(count: int, table: TableType, filters: int) -> Launch:
    """A thread for each of `count` values."""
    row = row_bytes(filters, np.dtype(TABLE_DTYPES[table]).itemsize)
    defines = (("TYPE", int(table)), ("ROW_BYTES", row), ("THREADS", THREADS))
    return Launch(KERNEL, defines, (ceil_div(count, THREADS), 1, 1), (THREADS, 1, 1))


def folded_table(
    run: Runner, product: Any, table: Any, kind: TableType, lowest: Any = None, scale: Any = None
) -> None:
    """table [slices, words, width, slice], flat, = product [width, words, filters], rounded.

    The whole numbers of FIXED are those that `lowest` [width, filters] and `scale` [filters] make of them.
    """
    width, words, filters = product.shape
    size = slice_of(kind, filters)
    rows = ceil_div(filters, size) * words * width
    check_shape("folded_table table", table.shape, (rows * size,))
    written = as_bytes("folded_table table", table, TABLE_DTYPES[kind])
    if kind == TableType.FIXED:
        check_shape("folded_table lowest", lowest.shape, (width, filters))
        check_shape("folded_table scale", scale.shape, (filters,))
    else:
        lowest = scale = product
    run(geometry(table.size, kind, filters), product, lowest, scale, written, words, width, filters)
