"""Values on a CUDA device as one layer stores them and the next one reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.buffers import empty, zero
from accel_cli.cuda.device import cupy
from accel_cli.kernels.tensor_operands import DTYPES, Output, halves, output_step


@dataclass(frozen=True)
class Values:
    """Rows of `width` values on the device, stored as `output`.

    `array` is [rows, width and zeros behind], [2, ...] if split.
    """

    array: Any
    width: int
    output: Output

    def floats(self) -> Floats:
        """float32 [rows, width] on the host, once the device has them."""
        array = cupy().asnumpy(self.array)[..., : self.width]
        floats: Floats
        if self.output == Output.BF16:
            floats = (array.astype(np.uint32) << 16).view(np.float32)
        elif self.output == Output.SPLIT:
            floats = array.astype(np.float32).sum(axis=0)
        else:
            floats = array.astype(np.float32)
        return floats


class Room:
    """Memory for at most so many rows of values, whose padding stays zero."""

    def __init__(self, rows: int, width: int, output: Output) -> None:
        step = 1 if output == Output.FP32 else output_step(output)
        self._width, self._row, self._output = width, math.ceil(width / step) * step, output
        self._memory = empty(math.prod(halves(output)) * rows * self._row, dtype=DTYPES[output])
        if self._row > width:
            zero(self._memory)

    def rows(self, count: int) -> Values:
        """The first so many rows."""
        shape = (*halves(self._output), count, self._row)
        return Values(self._memory[: math.prod(shape)].reshape(shape), self._width, self._output)
