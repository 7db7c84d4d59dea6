import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, check_bits, poisoned

from accel_cli.kernels.mma_gemm import DEFAULT, LARGE, SMALL, MmaTile, candidates
from accel_cli.kernels.sgemm_tile import shared_limit
from accel_cli.kernels.tensor_gemm import (
    tensor_batched,
    tensor_experts,
    tensor_gemm,
    tensor_packed,
    tensor_residual,
    tensor_windows,
)
from accel_cli.kernels.tensor_operands import DTYPES, Operands, Output, Packed, halves
from accel_cli.kernels.tensor_tile import Source
from kernels.tensor_cases import (
    BF16,
    EXACT,
    FP16,
    LENGTHS,
    SHORTCUTS,
    SPLIT,
    TF32,
    Convolution,
    Experts,
    Product,
    Shortcut,
    named,
    stored,
)
from kernels.tensors import values, with_zeros

pytestmark = pytest.mark.extras  # minutes of compiling

TINY = MmaTile(32, 32, 32, 16, 2)  # 64 threads


# (M, N, K) about TINY and the step of k, 64: 1, less one, whole, one more, two bands.
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(1, 1, 1), (31, 31, 63), (32, 32, 64), (33, 33, 65), (2, 70, 200), (70, 3, 130), (545, 34, 5)],
)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, columns: int, depth: int) -> None:
    p = Product(FP16, rows, columns, depth)
    check(p.run(backend, TINY), p.expected() + p.bias, EXACT)


@pytest.mark.parametrize("operands", [BF16, TF32, SPLIT], ids=named)
def test_every_type(backend: Backend, operands: Operands) -> None:
    p = Product(operands, 33, 34, 150)
    check(p.run(backend, TINY), p.expected() + p.bias, EXACT)


def test_split_operands_are_as_good_as_floats(backend: Backend) -> None:
    p = Product(SPLIT, 20, 16, 300)
    exact = p.a.astype(np.float64) @ p.weight.astype(np.float64).T + p.bias
    half = np.abs(Product(FP16, 20, 16, 300).expected() + p.bias - exact).max()
    worst = np.abs(p.run(backend, TINY) - exact).max()
    assert worst < np.abs(p.a @ p.weight.T + p.bias - exact).max() * 8  # a GPU cuts off as it adds
    assert worst < half / 100


@pytest.mark.parametrize("output", list(Output)[1:], ids=lambda o: o.name)
def test_every_output_into_a_part_of_a_row(backend: Backend, output: Output) -> None:
    p = Product(BF16, 18, 11, 40)
    a = backend.array(stored(p.a, BF16))
    for column, stride in ((4, 16), (3, 15)):  # pairs that are aligned, and that are not
        y = backend.array(poisoned((*halves(output), 18, stride), DTYPES[output]))
        tensor_gemm(backend.run, a, p.packed(backend), None, y, tile=TINY, output=output, column=column)
        got = backend.numpy(y)
        check(
            values(got[..., column : column + 11], output),
            p.expected(),
            8e-3 if output == Output.BF16 else 1e-3,
        )
        for rest in (got[..., :column], got[..., column + 11 :]):
            check_bits(rest.copy(), poisoned(rest.shape, DTYPES[output]))


def test_relu_keeps_a_nan(backend: Backend) -> None:
    p = Product(FP16, 9, 10, 20)
    p.a[3, 5] = np.nan
    y, good = backend.array(poisoned((9, 10))), np.arange(9) != 3
    a, bias = backend.array(stored(p.a, FP16)), backend.array(p.bias)
    tensor_gemm(backend.run, a, p.packed(backend), bias, y, relu=True, tile=TINY)
    got = backend.numpy(y)
    assert np.isnan(got[3]).all()
    check(got[good], np.maximum(p.expected() + p.bias, 0)[good], EXACT)


def test_scaled_weights(backend: Backend) -> None:
    p = Product(SPLIT, 5, 7, 100)
    y = backend.array(poisoned((5, 7)))
    a, bias = backend.array(stored(p.a, SPLIT)), backend.array(p.bias)
    tensor_gemm(backend.run, a, p.packed(backend, 4096.0), bias, y, tile=TINY)
    check(backend.numpy(y), p.a.astype(np.float64) @ p.weight.astype(np.float64).T + p.bias, EXACT)


def test_reads_longer_rows(backend: Backend) -> None:
    p = Product(FP16, 5, 7, 100)
    a = backend.array(with_zeros(stored(p.a, FP16), 136) + np.float16(0))
    y = backend.array(poisoned((5, 7)))
    tensor_gemm(backend.run, a, p.packed(backend), backend.array(p.bias), y, tile=TINY)
    check(backend.numpy(y), p.expected() + p.bias, EXACT)


def test_a_batch_of_products(backend: Backend) -> None:
    p = Product(SPLIT, 33, 18, 19, batch=(2,))
    y = backend.array(poisoned((2, 2, 33, 18), SPLIT.dtype))
    a = backend.array(stored(p.a, SPLIT))
    tensor_batched(backend.run, a, p.packed(backend), y, tile=TINY, output=Output.SPLIT)
    check(values(backend.numpy(y), Output.SPLIT), p.expected(), EXACT)


@pytest.mark.parametrize(("operands", "dimension", "filters"), [(FP16, 64, 33), (TF32, 5, 7)], ids=str)
def test_convolves_windows_and_keeps_the_largest(
    backend: Backend, operands: Operands, dimension: int, filters: int
) -> None:
    c = Convolution(operands, LENGTHS, 3, dimension, filters)
    check(c.run_windows(backend, TINY), c.expected(), EXACT)


def test_a_nan_is_the_largest(backend: Backend) -> None:
    c = Convolution(FP16, [4, 6], 3, 8, 5)
    c.x[4, 2] = -np.nan
    got = c.run_windows(backend, TINY)
    assert np.isnan(got[1, 3:]).all()
    check(got[0], c.expected()[0], EXACT)


@pytest.mark.parametrize(("operands", "dimension"), [(BF16, 100), (SPLIT, 3)], ids=str)
def test_takes_rows_of_the_table_by_their_ids(backend: Backend, operands: Operands, dimension: int) -> None:
    c = Convolution(operands, LENGTHS, 3, dimension, 18)
    check(c.run_ids(backend, TINY), c.expected(), EXACT)


@pytest.mark.parametrize(
    ("experts", "hidden", "output", "relu"),
    [(4, 9, Output.FP32, False), (2, 17, Output.SPLIT, False), (1, 5, Output.FP16, True)],
)
def test_weighs_the_experts(backend: Backend, experts: int, hidden: int, output: Output, relu: bool) -> None:
    p = Experts(FP16, 35, hidden, experts, 20)
    got = values(p.weighed(backend, TINY, output, relu), output)
    check(got, p.expected_weighed(relu), 1e-3 if output == Output.FP16 else EXACT)


@pytest.mark.parametrize(("operands", "output"), SHORTCUTS, ids=str)
def test_adds_what_was_multiplied_to_what_relu_leaves(
    backend: Backend, operands: Operands, output: Output
) -> None:
    p = Shortcut(operands, 35, 69)
    tolerance = 1e-3 if output in (Output.FP16, Output.TF32) else EXACT
    check(p.added(backend, TINY, output), p.expected_added(), tolerance)


def test_every_tile_gives_the_same_bits(backend: Backend) -> None:
    p = Product(FP16, 65, 66, 200)
    check_bits(p.run(backend, DEFAULT), p.run(backend, TINY))


def test_a_row_does_not_depend_on_its_batch(backend: Backend) -> None:
    p = Product(BF16, 40, 17, 50)
    whole = p.run(backend, TINY)
    p.a = p.a[37:38]
    check_bits(p.run(backend, TINY), whole[37:38])


def test_candidates_are_legal() -> None:
    for capability in [(8, 0), (8, 6), (9, 0), (10, 0)]:
        limit = shared_limit(capability)
        for operands in (FP16, TF32, SPLIT):
            for source in (Source.WINDOWS, Source.IDS):
                tiles = candidates(operands, source, capability)
                assert SMALL in tiles or operands.split
                assert all(tile.shared_bytes(operands.split) <= limit for tile in tiles)
                assert len(tiles) == len(set(tiles)) > 10
    limit = shared_limit((8, 0))
    assert LARGE.legal(FP16, limit, Source.WINDOWS)
    assert not LARGE.legal(FP16, limit, Source.IDS)
    assert not LARGE.legal(FP16, limit, Source.PACKED)


def nothing(*_: object) -> None: ...


def test_refuses_what_does_not_fit() -> None:
    a, y, bias = np.zeros((2, 64), np.float16), np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
    packed = Packed(np.zeros((1, 8, 64), np.float16), 3, FP16)
    with pytest.raises(ValueError, match="packed weights"):
        Packed(np.zeros((1, 3, 64), np.float16), 3, FP16)
    with pytest.raises(ValueError, match="tensor_gemm a: shape"):
        tensor_gemm(nothing, a[:, :56], packed, bias, y, tile=TINY)
    with pytest.raises(ValueError, match="rows of 68 values, no multiple of 16 bytes"):
        tensor_gemm(nothing, np.zeros((2, 68), np.float16), packed, bias, y, tile=TINY)
    with pytest.raises(ValueError, match="tensor_gemm y"):
        tensor_gemm(nothing, a, packed, bias, y, column=1, tile=TINY)
    with pytest.raises(TypeError, match="mma_gemm a: expected an array of float16, got float32"):
        tensor_gemm(nothing, a.astype(np.float32), packed, bias, y, tile=TINY)
    with pytest.raises(ValueError, match="mma_gemm reads no rows of the kind PACKED"):
        tensor_packed(nothing, np.zeros((1, 8, 64), np.float16), packed, bias, y, tile=TINY)
    with pytest.raises(ValueError, match="3 columns of 2 experts, expected 1, 2 or 4"):
        tensor_experts(nothing, a, y[:, :2], packed, bias, y, tile=TINY)
    wide = Packed(np.zeros((2, 8, 64), np.float16), 3, FP16)
    with pytest.raises(ValueError, match="tensor_residual: 3 columns of weights for rows of 128"):
        tensor_residual(nothing, np.zeros((2, 128), np.float16), wide, bias, y, tile=TINY)
    indices = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="rows of 56 for weights of 64, expected padded taps"):
        tensor_windows(nothing, a[:, :56], indices, indices, packed, bias, y, 0, tile=TINY)
