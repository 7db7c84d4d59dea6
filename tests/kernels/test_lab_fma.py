import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.lab_fma import CHAINS, lab_fma


# A block has 256 threads, and rounds are unrolled by 16.
@pytest.mark.parametrize(("count", "rounds"), [(1, 0), (255, 1), (257, 16), (300, 37)])
def test_scales_and_shifts_every_value_of_a_thread(backend: Backend, count: int, rounds: int) -> None:
    x = random_floats(count)
    y = backend.array(poisoned(count))
    lab_fma(backend.run, backend.array(x), y, -0.75, 0.5, rounds)
    values = x[:, None].astype(np.float64) + np.arange(CHAINS)
    for _ in range(rounds):
        values = values * -0.75 + 0.5
    check(backend.numpy(y), values.sum(axis=1))


def test_refuses_what_does_not_fit() -> None:
    x = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"lab_fma y: shape \(2,\), expected \(3,\)"):
        lab_fma(lambda *_: None, x, x[:2], 1.0, 0.0, 1)
