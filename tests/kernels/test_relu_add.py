import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.relu_add import relu_add
from accel_cli.kernels.tensor_operands import DTYPES, Output
from kernels.tensors import rounded, values

# (rows, columns); a block takes 4,096 floats or 8,192 halves, a vector 4 or 8, of which rows are whole or
# not.
SHAPES = [(1, 1), (7, 1), (3, 5), (1, 4095), (33, 64), (5, 2052), (9, 1000), (4097, 3)]
STORED = (Output.FP32, Output.FP16, Output.BF16)


def run(backend: Backend, x: np.ndarray, y: np.ndarray, bias: np.ndarray, stored: Output) -> np.ndarray:
    out = backend.array(poisoned(x.shape, DTYPES[stored]))
    relu_add(backend.run, *map(backend.array, (x, y, bias)), out, stored)
    return backend.numpy(out)


@pytest.mark.parametrize("stored", STORED, ids=lambda o: o.name)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_adds_in_fp32_and_rounds_once(backend: Backend, rows: int, columns: int, stored: Output) -> None:
    x, y = random_floats(rows, columns), random_floats(rows, columns, seed=1)
    x, y, bias = (rounded(array, stored) for array in (x, y, random_floats(columns, seed=2)))
    a, b, c = (values(array, stored).astype(np.float32) for array in (x, y, bias))
    check_bits(run(backend, x, y, bias, stored), rounded(np.maximum(a, 0) + b + c, stored))


def test_what_is_no_number(backend: Backend) -> None:
    x = np.array([[np.nan, -np.inf, np.inf, 1, 1, -1]], np.float32)
    y = np.array([[0, 1, 1, np.nan, 1, -np.inf]], np.float32)
    bias = np.array([0, 0, 0, 0, np.inf, 0], np.float32)
    expected = np.array([[np.nan, 1, np.inf, np.nan, np.inf, -np.inf]], np.float32)
    check_bits(run(backend, x, y, bias, Output.FP32), expected)


def test_nothing_is_launched_for_nothing(backend: Backend) -> None:
    nothing = np.zeros((0, 4), np.float32)
    assert run(backend, nothing, nothing, np.zeros(4, np.float32), Output.FP32).shape == (0, 4)


def test_refuses_what_does_not_fit() -> None:
    x, bias = np.zeros((4, 5), np.float32), np.zeros(5, np.float32)
    with pytest.raises(ValueError, match="relu_add y"):
        relu_add(lambda *_: None, x, x[:3], bias, x)
    with pytest.raises(ValueError, match="relu_add bias"):
        relu_add(lambda *_: None, x, x, bias[:4], x)
    with pytest.raises(ValueError, match="relu_add out"):
        relu_add(lambda *_: None, x, x, bias, x[:3])
    with pytest.raises(TypeError, match="relu_add y: expected an array of float32"):
        relu_add(lambda *_: None, x, x.astype(np.float16), bias, x)
    with pytest.raises(ValueError, match="arrays of SPLIT"):
        relu_add(lambda *_: None, x, x, bias, x, Output.SPLIT)
