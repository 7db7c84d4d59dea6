import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.softmax import softmax


def reference(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (255, 4), (256, 2), (257, 3), (7, 130)])
def test_each_row_sums_to_one(backend: Backend, rows: int, columns: int) -> None:
    x = 3 * random_floats(rows, columns)
    y = backend.array(poisoned((rows, columns)))
    softmax(backend.run, backend.array(x), y)
    check(backend.numpy(y), reference(x))
    check(backend.numpy(y).sum(axis=1), np.ones(rows))


def test_may_work_in_place(backend: Backend) -> None:
    x = random_floats(40, 5)
    y = backend.array(x)
    softmax(backend.run, y, y)
    check(backend.numpy(y), reference(x))


def test_large_values_do_not_overflow(backend: Backend) -> None:
    x = np.array([[1e30, 1e30, -1e30], [200.0, 100.0, 200.0]], np.float32)
    y = backend.array(poisoned(x.shape))
    softmax(backend.run, backend.array(x), y)
    check(backend.numpy(y), np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]))
