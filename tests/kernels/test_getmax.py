from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, check_bits, poisoned, random_floats

from accel_cli.kernels.getmax import getmax
from kernels.ragged import offsets_of, windows


def run(backend: Backend, y: np.ndarray, offsets: np.ndarray, width: int) -> np.ndarray:
    pooled = backend.array(poisoned((len(offsets) - 1, y.shape[1])))
    getmax(backend.run, backend.array(y), backend.array(offsets), pooled, width)
    return backend.numpy(pooled)


# The tile is 128 filters of one sentence. Rows that are no window hold poison, which must not be taken.
@pytest.mark.parametrize(
    ("lengths", "filters", "width"),
    [([1], 1, 1), ([3], 127, 3), ([9, 4, 5], 128, 3), ([5, 17], 129, 5), ([7, 3, 30], 10, 3)],
)
def test_takes_the_largest_window(backend: Backend, lengths: Sequence[int], filters: int, width: int) -> None:
    offsets = offsets_of(lengths)
    y, expected = poisoned((int(offsets[-1]), filters)), np.zeros((len(lengths), filters))
    for sentence, first, count in windows(offsets, width):
        y[first : first + count] = random_floats(count, filters, seed=sentence) - 5
        expected[sentence] = y[first : first + count].max(axis=0)
    check(run(backend, y, offsets, width), expected, EXACT)


def test_a_nan_wins(backend: Backend) -> None:
    y = np.array([[np.nan, 1, 1, np.inf], [2, np.nan, 2, np.nan], [3, 3, np.nan, 3]], np.float32)
    check_bits(run(backend, y, offsets_of([3]), 1), np.full((1, 4), np.nan, np.float32))
