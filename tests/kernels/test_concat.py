import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.concat import concat


# (rows, columns, first, pitch); the tile is 256 elements of x.
@pytest.mark.parametrize(
    ("rows", "columns", "first", "pitch"),
    [(1, 1, 0, 1), (5, 51, 0, 60), (4, 64, 32, 96), (1, 257, 3, 260), (37, 10, 20, 40)],
)
def test_writes_its_columns_and_no_others(
    backend: Backend, rows: int, columns: int, first: int, pitch: int
) -> None:
    x = random_floats(rows, columns)
    y = backend.array(poisoned((rows, pitch)))
    concat(backend.run, backend.array(x), y, first)
    expected = poisoned((rows, pitch))
    expected[:, first : first + columns] = x
    check_bits(backend.numpy(y), expected)


def test_refuses_columns_that_do_not_fit(backend: Backend) -> None:
    x, y = backend.array(random_floats(2, 8)), backend.array(poisoned((2, 10)))
    with pytest.raises(ValueError, match="8 columns at 3 do not fit into 10"):
        concat(backend.run, x, y, 3)
