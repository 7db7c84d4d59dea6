import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, check_bits, random_floats

from accel_cli.kernels.relu import relu


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_cuts_off_below_zero_in_place(backend: Backend, count: int) -> None:
    values = random_floats(count)
    y = backend.array(values)
    relu(backend.run, y)
    check(backend.numpy(y), np.maximum(values, 0), EXACT)


def test_keeps_nan_and_infinity(backend: Backend) -> None:
    y = backend.array(np.array([np.nan, -np.inf, np.inf, -1e-37, 0.0], np.float32))
    relu(backend.run, y)
    check_bits(backend.numpy(y), np.array([np.nan, 0.0, np.inf, 0.0, 0.0], np.float32))
