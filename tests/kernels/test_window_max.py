from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.window_max import window_max


def run(backend: Backend, y: np.ndarray, counts: Sequence[int], pitch: int, column: int) -> np.ndarray:
    """The features of sentences with so many windows, among columns that hold poison."""
    owners = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    features = poisoned((len(counts), pitch))
    features[:, column : column + y.shape[1]] = 0
    result = backend.array(features)
    window_max(backend.run, backend.array(y), backend.array(owners), result, column)
    return backend.numpy(result)


# A thread goes down 16 windows of a filter, 128 filters to a block. Sentences share a stretch, or fill some.
@pytest.mark.parametrize(
    ("counts", "filters", "pitch", "column"),
    [
        ([1], 1, 1, 0),
        ([14, 14, 14], 127, 300, 100),
        ([16, 16], 128, 128, 0),
        ([17, 1, 15, 3], 129, 140, 11),
        ([1, 2, 40, 5], 10, 30, 20),
    ],
)
def test_takes_the_largest_window_or_zero(
    backend: Backend, counts: Sequence[int], filters: int, pitch: int, column: int
) -> None:
    y = random_floats(sum(counts), filters) - 1
    expected = poisoned((len(counts), pitch))
    for sentence, rows in enumerate(np.split(y, np.cumsum(counts)[:-1])):
        expected[sentence, column : column + filters] = np.maximum(rows.max(axis=0), 0)
    check_bits(run(backend, y, counts, pitch, column), expected)


def test_a_nan_wins_and_minus_zero_does_not(backend: Backend) -> None:
    y = np.array([[np.nan, 1, 1, -0.0], [2, -np.nan, np.inf, -1]], np.float32)
    check_bits(run(backend, y, [2], 4, 0), np.array([[np.nan, np.nan, np.inf, 0]], np.float32))


def test_refuses_columns_that_are_not_there(backend: Backend) -> None:
    with pytest.raises(ValueError, match="4 filters at 3 do not fit into 6"):
        run(backend, random_floats(2, 4), [2], 6, 3)
