"""What the lab's tables predict by arithmetic alone, and how they are printed."""

from __future__ import annotations

import numpy as np
import pytest

from accel_cli.bench.lab.banks import read_ways, write_ways
from accel_cli.bench.lab.memory import SIZES
from accel_cli.bench.lab.report import Column, times
from accel_cli.bench.lab.roofline import Program, Roof, intensity
from accel_cli.bench.lab.setting import check_same
from accel_cli.bench.lab.softmax import LENGTHS, difference
from accel_cli.bench.lab.threads import sectors
from accel_cli.bench.measure import Timing
from accel_cli.errors import AccelError
from accel_cli.kernels.lab_copy import Order
from accel_cli.kernels.lab_transpose import Layout


@pytest.mark.parametrize(
    ("order", "columns", "touched"),
    [
        (Order(""), 100, 4),
        (Order("", stride=2), 100, 8),
        (Order("", stride=4), 100, 16),
        (Order("", stride=8), 100, 32),
        (Order("", stride=32), 100, 32),
        (Order("", down=True), 8192, 32),
        (Order("", down=True), 1, 4),  # a column alone is a row
    ],
)
def test_sectors_that_a_warp_touches(order: Order, columns: int, touched: int) -> None:
    assert sectors(order, columns) == touched


@pytest.mark.parametrize(
    ("layout", "write", "read"), [(Layout.PLAIN, 1, 32), (Layout.PADDED, 1, 1), (Layout.SWIZZLED, 1, 1)]
)
def test_ways_of_a_conflict(layout: Layout, write: int, read: int) -> None:
    assert (write_ways(layout), read_ways(layout)) == (write, read)


def test_sizes_and_lengths() -> None:
    assert (SIZES[0], SIZES[-1], len(SIZES)) == (4 << 10, 256 << 20, 9)
    assert (LENGTHS[0], LENGTHS[-1], len(LENGTHS)) == (4, 65536, 8)


def test_intensity_grows_with_the_tile() -> None:
    assert [intensity(n, n) for n in (1, 32, 64, 128)] == [0.25, 8, 16, 32]
    assert intensity(8, 1) == pytest.approx(16 / 36)


@pytest.mark.parametrize(
    ("memory", "shared", "expected"),
    [
        (0.25, None, (1.0, "memory")),
        (8, 0.25, (8.0, "shared memory")),
        (16, 10, (60.0, "fma")),
        (15, 1.875, (60.0, "fma")),  # at the ridge
    ],
)
def test_the_lowest_roof_bounds(memory: float, shared: float | None, expected: tuple[float, str]) -> None:
    roof = Roof(fma=60.0, memory=4.0, shared=32.0)
    assert roof.over(Program("", lambda operands: None, memory, shared)) == expected


def test_an_error_is_relative_however_small_the_value() -> None:
    x = np.array([[0.0, -20.0]], np.float32)
    exact = np.exp([0.0, -20.0]) / np.exp([0.0, -20.0]).sum()
    assert difference(exact.astype(np.float32)[None], x)[0] == pytest.approx(0, abs=1e-7)
    assert difference((exact * [1, 1.5]).astype(np.float32)[None], x) == (pytest.approx(0.5, rel=1e-5), 0)


def test_one_value_that_is_not_finite_leaves_no_error() -> None:
    x = np.zeros((2, 2), np.float32)
    for lost in (np.nan, np.inf):
        assert difference(np.array([[0.5, lost], [0.5, 0.5]], np.float32), x) == (None, 25.0)


def test_moved_values_must_be_the_same() -> None:
    x = np.arange(4, dtype=np.float32)
    check_same("it", x, x.copy())
    with pytest.raises(AccelError, match="not timed, because it is wrong: 2 of 4 values differ"):
        check_same("it", np.array([0, 1, np.nan, 4], np.float32), x)


def test_times_and_columns() -> None:
    row = times(Timing((3e-6, 1e-6, 2e-6)))
    assert row == {"us": 2.0, "us_min": 1.0, "us_max": 3.0, "repeats": [3e-6, 1e-6, 2e-6]}
    assert Column("us", "us", ".1f").shown(row) == "2.0"
    assert Column("a", "a").shown({"a": "word"}) == "word"
    assert [Column("a", "a", ".1f", *rest).shown({"a": None}) for rest in ((), ("none",))] == ["-", "none"]
