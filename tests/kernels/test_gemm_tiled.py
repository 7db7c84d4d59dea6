import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.gemm_tiled import gemm_tiled

# (rows, inputs, outputs); the tile is 32 of each.
SHAPES = [(1, 1, 1), (31, 32, 33), (32, 33, 31), (33, 31, 32), (64, 64, 32), (3, 200, 2), (70, 5, 40)]


def run(backend: Backend, a: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    y = backend.array(poisoned((len(a), len(weight))))
    gemm_tiled(backend.run, backend.array(a), backend.array(weight), backend.array(bias), y)
    return backend.numpy(y)


@pytest.mark.parametrize(("rows", "inputs", "outputs"), SHAPES)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, inputs: int, outputs: int) -> None:
    a, weight = random_floats(rows, inputs), random_floats(outputs, inputs, seed=1)
    bias = random_floats(outputs)
    check(run(backend, a, weight, bias), a.astype(np.float64) @ weight.astype(np.float64).T + bias)


def test_a_row_does_not_depend_on_its_batch(backend: Backend) -> None:
    a, weight, bias = random_floats(40, 50), random_floats(20, 50, seed=1), random_floats(20)
    whole = run(backend, a, weight, bias)
    check(run(backend, a[35:36].copy(), weight, bias), whole[35:36], EXACT)


def test_a_nan_stays_in_its_row(backend: Backend) -> None:
    a, weight, bias = random_floats(5, 40), random_floats(3, 40, seed=1), random_floats(3)
    clean = run(backend, a, weight, bias)
    a[2, 39] = np.nan
    y = run(backend, a, weight, bias)
    assert np.isnan(y[2]).all()
    check(np.delete(y, 2, axis=0), np.delete(clean, 2, axis=0), EXACT)
