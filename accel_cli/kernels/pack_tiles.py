"""Host twin of kernels_cu/pack_tiles.cu."""

from __future__ import annotations

import math
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.tensor_operands import (
    Operands,
    Output,
    as_bytes,
    halves,
    low_of,
    packed_rows,
    padded,
    step,
)

THREADS = 256
EXPONENT = 14  # of the largest split weight as it is scaled, so that low halves keep all of their bits

KERNEL = Kernel(
    "pack_tiles",
    (
        Array("weight", "float32"),
        Array("packed", "uint8", written=True),
        Scalar("outputs", "int32"),
        Scalar("inputs", "int32"),
        Scalar("taps", "int32"),
        Scalar("dimension", "int32"),
        Scalar("pitch", "int32"),
        Scalar("packed_low", "int64"),
        Scalar("scale", "float32"),
    ),
)


def geometry(count: int, batch: int, output: Output) -> Launch:
    """A thread for two values of `count`; y is the batch."""
    defines = (("THREADS", THREADS), ("OUTPUT", int(output)))
    return Launch(KERNEL, defines, (ceil_div(count, 2 * THREADS), batch, 1), (THREADS, 1, 1))


def packed_shape(weight: tuple[int, ...], operands: Operands) -> tuple[int, ...]:
    """The shape of the packed array for a weight [outputs, inputs, taps] or [batch, outputs, inputs, taps].

    It is [steps, outputs up to a multiple of 8, values of 128 bytes], after the batch if there is one, and
    after an axis of 2 if the operands are split.
    """
    *batch, outputs, inputs, taps = weight
    width = step(operands.type)
    steps = taps * padded(inputs, operands.type) // width
    return (*halves(operands.stored), *batch, steps, packed_rows(outputs), width)


def split_scale(largest: float) -> float:
    """The power of two that takes the largest magnitude of a weight into [2^13, 2^14); 1 if it is 0."""
    return math.ldexp(1.0, EXPONENT - math.frexp(largest)[1]) if largest else 1.0


def pack_tiles(run: Runner, weight: Any, packed: Any, operands: Operands, scale: float = 1.0) -> None:
    """packed = weight [outputs, inputs, taps] times `scale`, rounded, as the products read it.

    Row n's value j * padded(inputs) + c is tap j of channel c; a weight may have a batch in front. The shape
    of `packed` is that of `packed_shape`.
    """
    check_shape("pack_tiles packed", packed.shape, packed_shape(weight.shape, operands))
    *_, outputs, inputs, taps = weight.shape
    batch = weight.shape[0] if weight.ndim == 4 else 1
    dimension, pitch = padded(inputs, operands.type), packed_rows(outputs)
    launch = geometry(taps * dimension * pitch, batch, operands.stored)
    low = low_of(packed, operands.split)
    written = as_bytes("pack_tiles packed", packed, operands.dtype)
    run(launch, weight, written, outputs, inputs, taps, dimension, pitch, low, scale)
