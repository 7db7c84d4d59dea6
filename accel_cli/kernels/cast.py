"""Host twin of kernels_cu/cast.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.tensor_operands import (
    DTYPES,
    Output,
    as_bytes,
    halves,
    low_of,
    output_step,
    packed_rows,
)

THREADS = 256

KERNEL = Kernel(
    "cast",
    (
        Array("x", "float32"),
        Array("y", "uint8", written=True),
        Scalar("rows", "int64"),
        Scalar("columns", "int32"),
        Scalar("pitch", "int32"),
        Scalar("y_low", "int64"),
    ),
)


def geometry(count: int, output: Output, packed: bool = False) -> Launch:
    """A thread for two values of `count`."""
    defines = (("THREADS", THREADS), ("OUTPUT", int(output)), ("PACKED", int(packed)))
    return Launch(KERNEL, defines, (ceil_div(count, 2 * THREADS), 1, 1), (THREADS, 1, 1))


def cast(run: Runner, x: Any, y: Any, output: Output) -> None:
    """y [rows, pitch] = x [rows, columns], rounded, and zeros behind each row; [2, rows, pitch] if split.

    The pitch is even and at least `columns`.
    """
    (rows, columns), pitch = x.shape, y.shape[-1]
    if pitch < columns or pitch % 2:
        raise ValueError(f"cast y: rows of {pitch} for {columns} values, expected an even length")
    check_shape("cast y", y.shape, (*halves(output), rows, pitch))
    _launch(run, x, y, output, rows, pitch, packed=False)


def cast_packed(run: Runner, x: Any, y: Any, output: Output) -> None:
    """The same as a packed operand: y [steps, rows up to a multiple of 8, values of 128 bytes]."""
    (rows, columns), width = x.shape, output_step(output)
    steps = ceil_div(columns, width)
    check_shape("cast_packed y", y.shape, (*halves(output), steps, packed_rows(rows), width))
    _launch(run, x, y, output, packed_rows(rows), steps * width, packed=True)


def _launch(run: Runner, x: Any, y: Any, output: Output, rows: int, pitch: int, packed: bool) -> None:
    low = low_of(y, output == Output.SPLIT)
    written = as_bytes("cast y", y, DTYPES[output])
    if rows:
        run(geometry(rows * pitch, output, packed), x, written, *x.shape, pitch, low)
