import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.transpose import transpose


# The tile is 32 x 32.
@pytest.mark.parametrize(
    ("count", "rows", "columns"),
    [(1, 1, 1), (2, 31, 32), (1, 32, 33), (3, 33, 31), (2, 100, 16), (1, 16, 100), (4, 1, 70)],
)
def test_exchanges_rows_and_columns(backend: Backend, count: int, rows: int, columns: int) -> None:
    x = random_floats(count, rows, columns)
    y = backend.array(poisoned((count, columns, rows)))
    transpose(backend.run, backend.array(x), y)
    check_bits(backend.numpy(y), np.ascontiguousarray(x.transpose(0, 2, 1)))
