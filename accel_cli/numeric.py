"""How two results are compared, here and in every test: one measure that a NaN cannot pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Difference:
    """The worst disagreement between two arrays, and how many values miss the tolerance."""

    error: float
    index: tuple[int, ...]
    got: float
    expected: float
    tolerance: float
    failures: int
    values: int

    @property
    def passed(self) -> bool:
        """Whether every value is within the tolerance."""
        return self.failures == 0

    def __str__(self) -> str:
        return (
            f"{self.failures} of {self.values} values differ by more than {self.tolerance:g}; the worst by"
            f" {self.error:g} at {self.index}: got {self.got:.9g}, expected {self.expected:.9g}"
        )


def compare(got: npt.ArrayLike, expected: npt.ArrayLike, tolerance: float) -> Difference:
    """The difference by the measure min(|a - b|, |a - b| / |b|), value by value, in float64.

    NaN, and an infinity that is not expected, count as an infinite error. Arrays of different shapes
    raise ValueError.
    """
    a, b = np.asarray(got, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"cannot compare shape {a.shape} with expected shape {b.shape}")
    if a.size == 0:
        return Difference(0.0, (), 0.0, 0.0, tolerance, 0, 0)
    with np.errstate(all="ignore"):
        distance = np.abs(a - b)
        error = np.minimum(distance, distance / np.abs(b))
    error = np.where(np.isfinite(a) & np.isfinite(b), error, np.where(a == b, 0.0, np.inf))
    error = np.where(np.isnan(error), distance, error)  # 0 / 0: both values are zero
    within: npt.NDArray[Any] = error <= tolerance
    place = np.unravel_index(int(error.argmax()), error.shape)
    index = tuple(int(i) for i in place)
    failures = int(error.size - np.count_nonzero(within))
    return Difference(
        float(error[place]), index, float(a[place]), float(b[place]), tolerance, failures, error.size
    )
