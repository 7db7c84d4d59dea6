import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.tensor_operands import DTYPES, Output, halves
from accel_cli.kernels.transpose import transpose
from kernels.tensors import rounded


# A tile is 32 x 32, or 128 x 16 where there are no more columns.
@pytest.mark.parametrize(
    ("count", "rows", "columns"),
    [
        *[(1, 1, 1), (2, 31, 32), (1, 32, 33), (3, 33, 31), (2, 100, 16), (1, 16, 100), (4, 1, 70)],
        *[(2, 127, 15), (1, 128, 16), (1, 129, 17), (3, 300, 16), (2, 129, 1)],
    ],
)
def test_exchanges_rows_and_columns(backend: Backend, count: int, rows: int, columns: int) -> None:
    x = random_floats(count, rows, columns)
    y = backend.array(poisoned((count, columns, rows)))
    transpose(backend.run, backend.array(x), y)
    check_bits(backend.numpy(y), np.ascontiguousarray(x.transpose(0, 2, 1)))


@pytest.mark.parametrize("output", Output, ids=lambda o: o.name)
@pytest.mark.parametrize(("count", "rows", "columns", "pitch"), [(2, 33, 7, 64), (3, 5, 34, 5)])
def test_rounds_into_padded_rows(
    backend: Backend, output: Output, count: int, rows: int, columns: int, pitch: int
) -> None:
    x = random_floats(count, rows, columns)
    y = backend.array(poisoned((*halves(output), count, columns, pitch), DTYPES[output]))
    transpose(backend.run, backend.array(x), y, output)
    got = backend.numpy(y)
    check_bits(got[..., :rows].copy(), rounded(np.ascontiguousarray(x.transpose(0, 2, 1)), output))
    check_bits(got[..., rows:].copy(), poisoned(got[..., rows:].shape, DTYPES[output]))


def test_refuses_what_does_not_fit() -> None:
    x = np.zeros((2, 5, 3), np.float32)
    with pytest.raises(ValueError, match="transpose y"):
        transpose(lambda *_: None, x, np.zeros((2, 3, 4), np.float32))
    with pytest.raises(TypeError, match="expected an array of uint16, got float32"):
        transpose(lambda *_: None, x, np.zeros((2, 3, 5), np.float32), Output.BF16)
