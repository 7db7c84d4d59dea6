"""Host twin of kernels_cu/transpose.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.tensor_operands import DTYPES, Output, as_bytes, halves, low_of

THREADS = 256
SQUARE, NARROW = (32, 32), (128, 16)  # rows and columns of a tile; narrow, for sentences of few words

KERNEL = Kernel(
    "transpose",
    (
        Array("x", "float32"),
        Array("y", "uint8", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
        Scalar("pitch", "int32"),
        Scalar("y_low", "int64"),
    ),
)


def geometry(count: int, rows: int, columns: int, output: Output = Output.FP32) -> Launch:
    """A block for each matrix and tile: a narrow one where wider ones would be half empty."""
    tall, wide = NARROW if columns <= NARROW[1] else SQUARE
    grid = (count, ceil_div(rows, tall), ceil_div(columns, wide))
    defines = (("TALL", tall), ("WIDE", wide), ("THREADS", THREADS), ("OUTPUT", int(output)))
    return Launch(KERNEL, defines, grid, (THREADS, 1, 1))


def transpose(run: Runner, x: Any, y: Any, output: Output = Output.FP32) -> None:
    """y [count, columns, pitch] = each matrix of x [count, rows, columns] transposed, rounded to `output`.

    With SPLIT y is [2, count, columns, pitch]. What lies behind the first `rows` of each row stays as it is.
    """
    (count, rows, columns), pitch = x.shape, y.shape[-1]
    check_shape("transpose y", y.shape, (*halves(output), count, columns, max(rows, pitch)))
    low = low_of(y, output == Output.SPLIT)
    written = as_bytes("transpose y", y, DTYPES[output])
    run(geometry(count, rows, columns, output), x, written, rows, columns, pitch, low)
