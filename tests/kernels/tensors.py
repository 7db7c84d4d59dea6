"""Operands of tensor cores by numpy: rounding, splitting, packing."""

from __future__ import annotations

import numpy as np

from accel_cli.kernels.tensor_operands import DTYPES, Operands, Output, output_step, packed_rows, padded


def rounded(x: np.ndarray, output: Output) -> np.ndarray:
    """x as it is stored, to nearest, ties to even: an array of DTYPES[output], [2, ...] if split."""
    x = x.astype(np.float32)
    bits = x.view(np.uint32)
    if output == Output.FP16:
        return x.astype(np.float16)
    if output == Output.BF16:
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    if output == Output.TF32:
        return ((bits + 0xFFF + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
    if output == Output.SPLIT:
        high = x.astype(np.float16)
        return np.stack([high, (x - high).astype(np.float16)])
    return x


def values(stored: np.ndarray, output: Output) -> np.ndarray:
    """The numbers that are stored, in float64."""
    if output == Output.BF16:
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if output == Output.SPLIT:
        return stored.astype(np.float64).sum(0)
    return stored.astype(np.float64)


def with_zeros(x: np.ndarray, length: int) -> np.ndarray:
    """x with its last axis zero-padded to this length."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


def exchanged(pieces: np.ndarray) -> np.ndarray:
    """Rows of pieces [..., rows, 8, values of 16 bytes], piece p of row n where piece p ^ n % 8 was."""
    order = np.arange(8) ^ (np.arange(pieces.shape[-3]) % 8)[:, None]
    return np.take_along_axis(pieces, np.broadcast_to(order[:, :, None], pieces.shape), -2)


def unpacked(packed: np.ndarray) -> np.ndarray:
    """The rows [..., rows up to a multiple of 8, k] of a packed operand [..., steps, rows, values]."""
    *before, steps, rows, width = packed.shape
    pieces = exchanged(packed.reshape(*before, steps, rows, 8, width // 8))
    return pieces.swapaxes(-4, -3).reshape(*before, rows, steps * width)


def rows_of(weight: np.ndarray, operands: Operands) -> np.ndarray:
    """A weight [..., outputs, inputs, taps] as rows along k: tap by tap, each one's channels padded."""
    channels = with_zeros(weight.swapaxes(-1, -2), padded(weight.shape[-2], operands.type))
    return channels.reshape(*weight.shape[:-2], -1)


def pack(weight: np.ndarray, operands: Operands) -> np.ndarray:
    """What pack_tiles makes of a weight [..., outputs, inputs, taps]."""
    return pack_rows(rows_of(weight, operands), operands.stored)


def pack_rows(rows: np.ndarray, output: Output) -> np.ndarray:
    """Rows [..., n, k] rounded and packed; k is a multiple of the step."""
    stored = rounded(rows, output)
    *before, count, k = stored.shape
    more = packed_rows(count)
    stored = np.pad(stored, [(0, 0)] * len(before) + [(0, more - count), (0, 0)])
    width = output_step(output)
    steps = stored.reshape(*before, more, k // width, 8, width // 8).swapaxes(-4, -3)
    return exchanged(steps).reshape(*before, k // width, more, width)


def empty(shape: tuple[int, ...], output: Output) -> np.ndarray:
    """Zeros for what a kernel writes, [2, ...] if split."""
    return np.zeros(((2, *shape) if output == Output.SPLIT else shape), DTYPES[output])
