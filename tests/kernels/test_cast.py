import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.cast import cast, cast_packed
from accel_cli.kernels.tensor_operands import DTYPES, Output, halves, output_step
from kernels.tensors import empty, pack_rows, rounded, with_zeros

ALL = pytest.mark.parametrize("output", Output, ids=lambda o: o.name)


@ALL
@pytest.mark.parametrize(
    ("rows", "columns", "pitch"), [(1, 1, 2), (3, 63, 64), (5, 64, 64), (4, 65, 128), (9, 57, 58)]
)
def test_rounds_and_pads(backend: Backend, output: Output, rows: int, columns: int, pitch: int) -> None:
    x = random_floats(rows, columns)
    y = backend.array(poisoned((*halves(output), rows, pitch), DTYPES[output]))
    cast(backend.run, backend.array(x), y, output)
    check_bits(backend.numpy(y), rounded(with_zeros(x, pitch), output))


@ALL
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 64), (8, 65), (9, 200)])
def test_packs_rows(backend: Backend, output: Output, rows: int, columns: int) -> None:
    x = random_floats(rows, columns)
    whole = with_zeros(x, -(-columns // output_step(output)) * output_step(output))
    expected = pack_rows(whole, output)
    y = backend.array(poisoned(expected.shape, DTYPES[output]))
    cast_packed(backend.run, backend.array(x), y, output)
    check_bits(backend.numpy(y), expected)


def test_what_is_no_number(backend: Backend) -> None:
    x = np.array([[np.nan, -np.nan, np.inf, -np.inf, -0.0, 7e4]], np.float32)
    x[0, 0] = np.array([0x7F800001], np.uint32).view(np.float32)[0]  # a NaN in the bits that tf32 drops
    y = backend.array(empty((1, 6), Output.TF32))
    cast(backend.run, backend.array(x), y, Output.TF32)
    got = backend.numpy(y)
    assert np.isnan(got[0, :2]).all()
    assert got[0, 2:].tolist() == [np.inf, -np.inf, 0, float(rounded(x[0, 5:], Output.TF32)[0])]


def test_refuses_what_does_not_fit() -> None:
    x = np.zeros((4, 5), np.float32)
    for columns in (4, 7):
        with pytest.raises(ValueError, match=f"rows of {columns} for 5 values"):
            cast(lambda *_: None, x, np.zeros((4, columns), np.float16), Output.FP16)
    with pytest.raises(ValueError, match="cast y"):
        cast(lambda *_: None, x, np.zeros((4, 6), np.float16), Output.SPLIT)
    with pytest.raises(TypeError, match="expected an array of float16"):
        cast(lambda *_: None, x, np.zeros((4, 6), np.float32), Output.FP16)
    with pytest.raises(ValueError, match="cast_packed y"):
        cast_packed(lambda *_: None, x, np.zeros((1, 4, 64), np.float16), Output.FP16)
