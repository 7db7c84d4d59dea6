"""Host twin of kernels_cu/relu_add.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.tensor_operands import DTYPES, Output, as_bytes

THREADS, VECTORS = 256, 2
STORED = (Output.FP32, Output.FP16, Output.BF16)  # what the arrays may hold

KERNEL = Kernel(
    "relu_add",
    (
        Array("x", "uint8"),
        Array("y", "uint8"),
        Array("bias", "uint8"),
        Array("out", "uint8", written=True),
        Scalar("count", "int64"),
        Scalar("columns", "int32"),
    ),
)


def variants() -> list[Launch]:
    """One launch for each type, with rows of whole vectors and with others."""
    return [geometry(1, columns, stored) for stored in STORED for columns in (8, 1)]


def geometry(count: int, columns: int, stored: Output) -> Launch:
    """A block for each THREADS * VECTORS vectors of 16 bytes."""
    width = 16 // np.dtype(DTYPES[stored]).itemsize
    whole = columns % width == 0
    constants = {"THREADS": THREADS, "VECTORS": VECTORS, "OUTPUT": int(stored), "WHOLE": int(whole)}
    grid = (ceil_div(count, THREADS * VECTORS * width), 1, 1)
    return Launch(KERNEL, tuple(constants.items()), grid, (THREADS, 1, 1))


def relu_add(run: Runner, x: Any, y: Any, bias: Any, out: Any, stored: Output = Output.FP32) -> None:
    """out [rows, columns] = max(x, 0) + y + bias [columns], all of one of STORED.

    Every array begins at a multiple of 16 bytes.
    """
    if stored not in STORED:
        raise ValueError(f"relu_add: arrays of {stored.name}, expected FP32, FP16 or BF16")
    rows, columns = x.shape
    check_shape("relu_add y", y.shape, (rows, columns))
    check_shape("relu_add bias", bias.shape, (columns,))
    check_shape("relu_add out", out.shape, (rows, columns))
    named = {"x": x, "y": y, "bias": bias, "out": out}
    arrays = [as_bytes(f"relu_add {name}", array, DTYPES[stored]) for name, array in named.items()]
    if x.size:
        run(geometry(x.size, columns, stored), *arrays, x.size, columns)
