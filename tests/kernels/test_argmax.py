import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.argmax import argmax


def run(backend: Backend, x: np.ndarray) -> np.ndarray:
    label = backend.array(poisoned(len(x), "int32"))
    argmax(backend.run, backend.array(x), label)
    return backend.numpy(label)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (255, 4), (256, 2), (257, 3), (7, 130)])
def test_finds_the_largest_column(backend: Backend, rows: int, columns: int) -> None:
    x = random_floats(rows, columns)
    check(run(backend, x), x.argmax(axis=1), EXACT)


def test_the_first_of_equal_columns_wins(backend: Backend) -> None:
    x = np.array([[2, 2, 2], [1, 3, 3], [-np.inf, -np.inf, -np.inf], [0.0, -0.0, 0.0]], np.float32)
    check(run(backend, x), [0, 1, 0, 0], EXACT)


def test_a_nan_counts_as_the_largest(backend: Backend) -> None:
    x = np.array([[1, np.nan, np.inf], [np.nan, 1, np.nan], [np.inf, 2, np.nan]], np.float32)
    check(run(backend, x), [1, 0, 2], EXACT)
