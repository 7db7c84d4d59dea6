import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats

from accel_cli.kernels.skinny import skinny

# (rows, depth, outputs): a block has 4 rows, a warp goes 128 along depth.
SHAPES = [(1, 1, 2), (3, 127, 2), (4, 128, 2), (5, 129, 4), (9, 516, 4), (2, 50, 16)]


def run(backend: Backend, a: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    y = backend.array(poisoned((len(a), len(weight))))
    skinny(backend.run, backend.array(a), backend.array(weight), backend.array(bias), y)
    return backend.numpy(y)


@pytest.mark.parametrize(("rows", "depth", "outputs"), SHAPES)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, depth: int, outputs: int) -> None:
    a, weight, bias = (
        random_floats(rows, depth),
        random_floats(outputs, depth, seed=1),
        random_floats(outputs),
    )
    check(run(backend, a, weight, bias), a.astype(np.float64) @ weight.astype(np.float64).T + bias)


def test_a_row_does_not_depend_on_its_batch(backend: Backend) -> None:
    a, weight, bias = random_floats(9, 132), random_floats(4, 132, seed=1), random_floats(4)
    whole = run(backend, a, weight, bias)
    check(run(backend, a[4:5].copy(), weight, bias), whole[4:5], EXACT)


def test_a_nan_stays_in_its_row(backend: Backend) -> None:
    a, weight, bias = random_floats(3, 40), random_floats(2, 40, seed=1), random_floats(2)
    a[1, 39] = np.nan
    assert np.isnan(run(backend, a, weight, bias)).tolist() == [[False] * 2, [True] * 2, [False] * 2]


@pytest.mark.parametrize("outputs", [0, 17])
def test_refuses_more_columns_than_it_has_sums_for(outputs: int) -> None:
    a, weight = np.zeros((1, 4), np.float32), np.zeros((outputs, 4), np.float32)
    with pytest.raises(ValueError, match=f"{outputs} columns, expected 1 to 16"):
        skinny(lambda *_: None, a, weight, weight[:, 0].copy(), a)
