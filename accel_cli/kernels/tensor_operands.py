"""What tensor cores multiply: types, and how arrays of them are padded. See kernels_cu/tensor_types.cuh."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from accel_cli.kernels.base import ceil_div, check_shape

ROW_BYTES = 128  # what a product takes of every row at once: a step along k
PACKED_ROWS = 8  # packed operands have a multiple of so many rows


class Type(IntEnum):
    """What tensor cores multiply."""

    FP16 = 0
    BF16 = 1
    TF32 = 2


class Output(IntEnum):
    """What a value is stored as; SPLIT is two halves whose sum it is, in an array [2, ...]: high, low."""

    FP32 = 0
    FP16 = 1
    BF16 = 2
    TF32 = 3
    SPLIT = 4


# numpy has no bfloat16: its bits travel as integers.
DTYPES = {
    Output.FP32: "float32",
    Output.FP16: "float16",
    Output.BF16: "uint16",
    Output.TF32: "float32",
    Output.SPLIT: "float16",
}
_STORED = {Type.FP16: Output.FP16, Type.BF16: Output.BF16, Type.TF32: Output.TF32}


@dataclass(frozen=True)
class Operands:
    """How a product is computed: its operands' type, and how often sums leave the tensor cores.

    With `split` an operand is two halves, and three products take the place of one. Tensor cores cut off
    as they add up: after `promote` of k partial sums are added in fp32, a multiple of the step; 0 is never.
    """

    type: Type
    split: bool = False
    promote: int = 0

    def __post_init__(self) -> None:
        """ValueError for what no kernel computes."""
        if self.split and self.type != Type.FP16:
            raise ValueError(f"{self.type.name} operands are not split, only FP16 ones")
        if self.promote < 0 or self.promote % step(self.type):
            raise ValueError(f"sums promoted every {self.promote} of k: no multiple of {step(self.type)}")

    @property
    def stored(self) -> Output:
        """As what `cast`, `transpose`, `pack_tiles` and other products write such operands."""
        return Output.SPLIT if self.split else _STORED[self.type]

    @property
    def dtype(self) -> str:
        """The numpy type of arrays of operands."""
        return DTYPES[self.stored]


def step(of: Type) -> int:
    """How many values of a row a product takes at once: 64, or 32 of tf32."""
    return ROW_BYTES // (4 if of == Type.TF32 else 2)


def padded(k: int, of: Type) -> int:
    """The length of a row of `k` values with the zeros behind them."""
    return ceil_div(k, step(of)) * step(of)


def output_step(output: Output) -> int:
    """The same of what is stored: how many values lie in 128 bytes."""
    return ROW_BYTES // (4 if DTYPES[output] == "float32" else 2)


def packed_rows(rows: int) -> int:
    """The rows of a packed operand: up to a multiple of eight."""
    return ceil_div(rows, PACKED_ROWS) * PACKED_ROWS


def packed_shape_of(rows: int, columns: int, output: Output) -> tuple[int, int, int]:
    """The shape of rows of values as a packed operand, each half of them if split."""
    return ceil_div(columns, output_step(output)), packed_rows(rows), output_step(output)


def as_bytes(what: str, array: Any, dtype: str) -> Any:
    """The same memory as bytes, which the kernels take in the place of their many types, or TypeError."""
    if array.dtype != dtype:
        raise TypeError(f"{what}: expected an array of {dtype}, got {array.dtype}")
    return array.view("uint8")


def low_of(array: Any, split: bool) -> int:
    """How many values after its high halves the low halves of an array [2, ...] lie; 0 if it is not split."""
    return int(array[0].size) if split else 0


def halves(output: Output) -> tuple[int, ...]:
    """The leading axis of an array of such values: (2,) or none."""
    return (2,) if output == Output.SPLIT else ()


@dataclass(frozen=True)
class Packed:
    """Weights as pack_tiles leaves them: [steps, columns up to a multiple of 8, values of 128 bytes].

    `columns` is the number of outputs, `scale` what undoes the scale of the weights. A batch of them has an
    axis more in front, and split ones have an axis of 2 before that.
    """

    values: Any
    columns: int
    operands: Operands
    scale: float = 1.0

    def __post_init__(self) -> None:
        """ValueError unless the values have such a shape."""
        *before, _, _ = self.values.shape
        wanted = (*before, packed_rows(self.columns), step(self.operands.type))
        check_shape("packed weights", self.values.shape, wanted)

    @property
    def depth(self) -> int:
        """The length of a row: k and the zeros in between and behind."""
        return int(self.values.shape[-3]) * step(self.operands.type)
