"""Host twin of kernels_cu/folded_scale.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.folded_layout import LINE, TableType

COLUMNS, ROWS = 32, 16

KERNEL = Kernel(
    "folded_scale",
    (
        Array("product", "float32"),
        Array("bias", "float32"),
        Array("lowest", "float32", written=True),
        Array("scale", "float32", written=True),
        Array("after", "float32", written=True),
        Scalar("words", "int32"),
        Scalar("width", "int32"),
        Scalar("filters", "int32"),
    ),
)


def geometry(filters: int) -> Launch:
    """A block for COLUMNS filters; ROWS rows of threads walk over the words."""
    defines = (*zip(("COLUMNS", "ROWS"), (COLUMNS, ROWS), strict=True), ("TYPE", int(TableType.FIXED)))
    grid = (ceil_div(filters, COLUMNS), 1, 1)
    return Launch(KERNEL, (*defines, ("ROW_BYTES", LINE)), grid, (COLUMNS, ROWS, 1))


def folded_scale(run: Runner, product: Any, bias: Any, lowest: Any, scale: Any, after: Any) -> None:
    """lowest [width, filters], scale and after [filters] for the values product [width, words, filters].

    What a table of type FIXED stores for a value is (value - lowest) / scale, rounded; `after` is the bias
    and what was lowest of each tap.
    """
    width, words, filters = product.shape
    check_shape("folded_scale lowest", lowest.shape, (width, filters))
    for name, array in (("bias", bias), ("scale", scale), ("after", after)):
        check_shape(f"folded_scale {name}", array.shape, (filters,))
    run(geometry(filters), product, bias, lowest, scale, after, words, width, filters)
