"""Values on a CUDA device as one layer stores them and the next one reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.buffers import empty, zero
from accel_cli.cuda.device import cupy
from accel_cli.kernels.tensor_operands import (
    DTYPES,
    Output,
    halves,
    output_step,
    packed_rows,
    packed_shape_of,
)


@dataclass(frozen=True)
class Values:
    """Rows of `width` values on the device, stored as `output`.

    `array` is [rows, width and zeros behind], [2, ...] if split. If `packed_rows` says how many rows there
    are it is a packed operand instead, [steps, rows and more, values of 128 bytes]: see packed_place.cuh.
    """

    array: Any
    width: int
    output: Output
    packed_rows: int | None = None

    @property
    def packed(self) -> bool:
        """Whether the array is a packed operand."""
        return self.packed_rows is not None

    def floats(self) -> Floats:
        """float32 [rows, width] on the host, once the device has them."""
        array = cupy().asnumpy(self.array)
        if self.packed_rows is not None:
            array = unpacked(array, self.packed_rows)
        array = array[..., : self.width]
        floats: Floats
        if self.output == Output.BF16:
            floats = (array.astype(np.uint32) << 16).view(np.float32)
        elif self.output == Output.SPLIT:
            floats = array.astype(np.float32).sum(axis=0)
        else:
            floats = array.astype(np.float32)
        return floats


def unpacked(array: Any, rows: int) -> Any:
    """The rows [..., rows, steps * values] of a packed operand on the host."""
    *halves_of, steps, padded, values = array.shape
    pieces = array.reshape(*halves_of, steps, padded, 8, values // 8)
    number = np.arange(rows)[:, None]
    found = pieces[..., number, np.arange(8) ^ number % 8, :]
    return np.moveaxis(found.reshape(*halves_of, steps, rows, values), -3, -2).reshape(*halves_of, rows, -1)


class Room:
    """Memory for at most so many rows of values, whose padding stays zero; `packed` rows have none."""

    def __init__(self, rows: int, width: int, output: Output, *, packed: bool = False) -> None:
        self._packed = packed
        if packed:
            rows = packed_rows(rows)
        step = 1 if output == Output.FP32 else output_step(output)
        self._width, self._row, self._output = width, math.ceil(width / step) * step, output
        self._memory = empty(math.prod(halves(output)) * rows * self._row, dtype=DTYPES[output])
        if self._row > width or packed:
            zero(self._memory)

    def rows(self, count: int) -> Values:
        """The first so many rows."""
        if self._packed:
            shape = (*halves(self._output), *packed_shape_of(count, self._width, self._output))
            array = self._memory[: math.prod(shape)].reshape(shape)
            return Values(array, self._width, self._output, count)
        shape = (*halves(self._output), count, self._row)
        return Values(self._memory[: math.prod(shape)].reshape(shape), self._width, self._output)
