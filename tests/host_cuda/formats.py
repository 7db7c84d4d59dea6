"""Small floating point formats by plain search: the reference for the C++ of include/."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Format:
    """`exponent` and `mantissa` bits; without infinities only the largest code is no number."""

    exponent: int
    mantissa: int
    infinities: bool = True

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def infinity(self) -> int:
        """The code behind the largest number."""
        return self.sign - (1 << self.mantissa if self.infinities else 1)

    @cached_property
    def values(self) -> list[Fraction]:
        """The number of each code from zero up, and the one that would follow."""
        scale, bias = 1 << self.mantissa, (1 << (self.exponent - 1)) - 1
        found = []
        for code in range(self.infinity + 1):
            exponent, fraction = divmod(code, scale)
            significand = fraction + (scale if exponent else 0)
            found.append(Fraction(significand) * Fraction(2) ** (max(exponent, 1) - bias - self.mantissa))
        return found

    @cached_property
    def floats(self) -> np.ndarray:
        """The same as float64, the number that would follow the largest included."""
        return np.array([float(value) for value in self.values])

    def nearest(self, value: Fraction, saturate: bool = False) -> int:
        """The code nearest to a number, the even one of two; from the largest on, infinity (or NaN)."""
        size, values = abs(value), self.values
        above = min(bisect_left(values, size), len(values) - 1)
        code = above
        if above and size < values[above]:
            down, up = size - values[above - 1], values[above] - size
            code = above - (down < up or (down == up and above % 2 == 1))
        if code == self.infinity and saturate:
            code -= 1
        return code + (self.sign if value < 0 else 0)

    def critical(self) -> np.ndarray:
        """Floats that try every rounding: each number, each midpoint, and the floats beside them."""
        numbers = self.floats
        exact = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2])
        with np.errstate(over="ignore"):
            points = exact.astype(np.float32)
        points = points[points.astype(np.float64) == exact]
        around = [points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(0))]
        positive = np.unique(np.concatenate(around))
        return np.concatenate([positive, -positive])


HALF = Format(5, 10)
BFLOAT16 = Format(8, 7)
E4M3 = Format(4, 3, infinities=False)
E5M2 = Format(5, 2)
