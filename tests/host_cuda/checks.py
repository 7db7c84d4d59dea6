"""What the tests of kernels share: poisoned outputs, random inputs, and the one comparison."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from accel_cli.numeric import compare

EXACT = 0.0  # for kernels that only move values
FP32 = 1e-4  # for sums of a few hundred products in fp32 against a reference in float64


def poisoned(shape: int | tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """An array that no kernel has written: NaN, or an integer that no kernel computes."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.full(shape, np.nan, kind)
    return np.full(shape, np.iinfo(kind).max // 3 * 2, kind)


def random_floats(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Normal values, rounded to the type in which they are stored before any reference sees them."""
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(dtype)


def check(got: npt.ArrayLike, expected: npt.ArrayLike, tolerance: float = FP32) -> None:
    """Fails, quoting the worst value, unless all are within the tolerance; no NaN is."""
    difference = compare(got, expected, tolerance)
    assert difference.passed, str(difference)


def check_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Fails unless both have the same values bit for bit, the bits of a NaN aside."""
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected) if expected.dtype.kind == "f" else np.ones(expected.shape, bool)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers])), (
        "a zero has the wrong sign"
    )
