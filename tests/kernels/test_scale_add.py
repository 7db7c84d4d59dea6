import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.scale_add import scale_add


# (rows, experts, size); the tile is 256 elements of the result.
@pytest.mark.parametrize(
    ("rows", "experts", "size"), [(1, 1, 1), (5, 4, 51), (4, 4, 64), (1, 3, 257), (33, 8, 20)]
)
def test_weighs_the_experts(backend: Backend, rows: int, experts: int, size: int) -> None:
    gate, y = random_floats(rows, experts), random_floats(experts, rows, size)
    m = backend.array(poisoned((rows, size)))
    scale_add(backend.run, backend.array(gate), backend.array(y), m)
    check(backend.numpy(m), np.einsum("re,erh->rh", gate.astype(np.float64), y.astype(np.float64)))
