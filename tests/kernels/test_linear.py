import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.linear import linear

# (rows, inputs, outputs); the tile is 256 outputs of all rows together.
SHAPES = [(1, 1, 1), (5, 33, 51), (4, 64, 64), (1, 16, 257), (3, 300, 100), (33, 7, 2)]


def run(backend: Backend, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    y = backend.array(poisoned((len(x), len(weight))))
    linear(backend.run, backend.array(x), backend.array(weight), backend.array(bias), y)
    return backend.numpy(y)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, inputs: int, outputs: int) -> None:
    x, weight, bias = (
        random_floats(rows, inputs),
        random_floats(outputs, inputs, seed=1),
        random_floats(outputs),
    )
    expected = x.astype(np.float64) @ weight.astype(np.float64).T + bias
    check(run(backend, x, weight, bias), expected)


def test_a_row_does_not_depend_on_its_batch(backend: Backend) -> None:
    x, weight, bias = random_floats(9, 50), random_floats(40, 50, seed=1), random_floats(40)
    whole = run(backend, x, weight, bias)
    check(run(backend, x[4:5].copy(), weight, bias), whole[4:5], EXACT)
