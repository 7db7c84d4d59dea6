import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.lab_shared import READS, lab_shared


# A block has 256 threads.
@pytest.mark.parametrize(("count", "rounds"), [(1, 1), (256, 0), (257, 3)])
def test_sums_a_column_in_each_round(backend: Backend, count: int, rounds: int) -> None:
    x = random_floats(READS, 32)
    y = backend.array(poisoned(count))
    lab_shared(backend.run, backend.array(x), y, rounds)
    sums = rounds * x.astype(np.float64).sum(axis=0)
    check(backend.numpy(y), sums[np.arange(count) % 32])


def test_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"lab_shared x: shape \(32, 31\), expected \(32, 32\)"):
        lab_shared(lambda *_: None, np.zeros((32, 31), np.float32), np.zeros(4, np.float32), 1)
