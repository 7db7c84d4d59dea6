"""The one measure of error: the course's check, value by value, which no NaN passes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from accel_cli.numeric import compare


@pytest.mark.parametrize(
    ("got", "expected", "error"),
    [
        (1.0, 1.0, 0.0),
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, 0.0),
        (1.001, 1.0, 0.001),
        (0.101, 0.1, 0.001),  # small values: the absolute error
        (1001.0, 1000.0, 0.001),  # large values: the relative one
        (-1001.0, -1000.0, 0.001),
        (1e-3, 0.0, 1e-3),
        (np.inf, np.inf, 0.0),
        (-np.inf, -np.inf, 0.0),
    ],
)
def test_the_smaller_of_the_absolute_and_the_relative(got: float, expected: float, error: float) -> None:
    assert compare([got], [expected], 1.0).error == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (np.nan, 1.0),
        (1.0, np.nan),
        (np.nan, np.nan),
        (np.inf, 1.0),
        (1.0, np.inf),
        (np.inf, -np.inf),
        (-np.inf, np.inf),
        (np.nan, np.inf),
        (np.nan, 0.0),
        (np.inf, 0.0),
    ],
)
@pytest.mark.parametrize("tolerance", [0.0, 1e-4, 1e30])
def test_nothing_but_numbers_passes(got: float, expected: float, tolerance: float) -> None:
    difference = compare([0.0, got], [0.0, expected], tolerance)
    assert not difference.passed
    assert difference.error == np.inf
    assert (difference.failures, difference.values, difference.index) == (1, 2, (1,))


def test_the_worst_value_is_named() -> None:
    got, expected = np.ones((3, 4)), np.ones((3, 4))
    got[1, 2], got[2, 0] = 1.5, 1.25
    difference = compare(got, expected, 0.1)
    assert (difference.index, difference.failures, difference.got, difference.expected) == (
        (1, 2),
        2,
        1.5,
        1.0,
    )
    text = str(difference)
    assert "2 of 12 values differ by more than 0.1" in text
    assert "by 0.5 at (1, 2): got 1.5, expected 1" in text


def test_the_tolerance_itself_passes() -> None:
    assert compare([0.5], [0.0], 0.5).passed
    assert not compare([0.5], [0.0], 0.499).passed


@pytest.mark.parametrize(("one", "other"), [((3,), (4,)), ((3,), (3, 1)), ((), (1,))])
def test_shapes_must_agree(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cannot compare shape"):
        compare(np.zeros(one), np.zeros(other), 1.0)


def test_nothing_agrees_with_nothing() -> None:
    assert compare(np.zeros((0, 3)), np.zeros((0, 3)), 0.0).passed


def test_scalars() -> None:
    difference = compare(2.0, 1.0, 0.1)
    assert (difference.index, difference.error) == ((), 1.0)


floats = arrays.arrays(np.float32, arrays.array_shapes(max_dims=2, max_side=5))


@given(values=floats)
def test_an_array_agrees_with_itself_if_it_has_no_nan(values: np.ndarray) -> None:
    assert compare(values, values, 0.0).passed == (not np.isnan(values).any())


@given(values=floats, place=st.integers(0, 24), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_one_bad_value_is_found(values: np.ndarray, place: int, bad: float) -> None:
    expected = np.nan_to_num(values)
    got = expected.copy()
    got.flat[place % got.size] = bad
    difference = compare(got, expected, 1e9)
    assert not difference.passed
    assert difference.index == np.unravel_index(place % got.size, got.shape)
