import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.lab_softmax import Method, lab_softmax, lanes


def reference(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def run(backend: Backend, x: np.ndarray, method: Method) -> np.ndarray:
    y = backend.array(poisoned(x.shape))
    lab_softmax(backend.run, backend.array(x), y, method)
    return backend.numpy(y)


# 4 lanes a row up to 16 columns, 32 up to 1,024, then 256: a block
FEW, MANY = [(1, 1), (65, 3), (64, 16)], [(1, 17), (9, 100), (3, 1025), (2, 2000)]
SHAPES = [*FEW, *(pytest.param(*shape, marks=pytest.mark.extras) for shape in MANY)]
NAIVE, SAFE = (pytest.param(m, id=m.name, marks=pytest.mark.extras) for m in (Method.NAIVE, Method.SAFE))
ONLINE = pytest.param(Method.ONLINE, id="ONLINE")
methods = pytest.mark.parametrize("method", [NAIVE, SAFE, ONLINE])
in_range = pytest.mark.parametrize("method", [SAFE, ONLINE])


@methods
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_each_row_sums_to_one(backend: Backend, method: Method, rows: int, columns: int) -> None:
    y = run(backend, 3 * random_floats(rows, columns), method)
    expected = reference(3 * random_floats(rows, columns))
    check(y / expected, np.ones_like(expected))  # relative, however small
    check(y.sum(axis=1), np.ones(rows))


@in_range
@pytest.mark.parametrize("columns", [3, pytest.param(1030, marks=pytest.mark.extras)])
def test_large_values_do_not_overflow(backend: Backend, method: Method, columns: int) -> None:
    x = random_floats(5, columns) + np.array([100, 1000, -1000, 1e30, 0], np.float32)[:, None]
    x[4, 0] = -np.inf
    check(run(backend, x, method), reference(x))


@pytest.mark.extras
def test_naive_overflows_and_underflows(backend: Backend) -> None:
    x = np.array([[100, 101, 99], [-200, -201, -202], [1, 2, 3], [89, 0, 0]], np.float32)
    y = run(backend, x, Method.NAIVE)
    assert np.isnan(y[:2]).all()
    check(y[2:3], reference(x[2:3]))
    assert np.isnan(y[3, 0])
    assert (y[3, 1:] == 0).all()  # what is finite, by an infinite sum


@methods
def test_a_nan_stays_in_its_row(backend: Backend, method: Method) -> None:
    x = random_floats(70, 3)
    x[5, 1] = np.nan
    y = run(backend, x, method)
    assert np.isnan(y[5]).all()
    assert np.isfinite(np.delete(y, 5, axis=0)).all()


@pytest.mark.parametrize(
    ("columns", "expected"), [(1, 4), (16, 4), (17, 32), (1024, 32), (1025, 256), (65536, 256)]
)
def test_the_longer_a_row_the_more_lanes(columns: int, expected: int) -> None:
    assert lanes(columns) == expected


def test_refuses_what_does_not_fit() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"lab_softmax y: shape \(3, 2\), expected \(2, 3\)"):
        lab_softmax(lambda *_: None, x, x.T.copy(), Method.SAFE)
