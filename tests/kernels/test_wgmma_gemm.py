import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, check_bits, poisoned, random_floats

from accel_cli.kernels.cast import cast_packed
from accel_cli.kernels.sgemm_tile import shared_limit
from accel_cli.kernels.tensor_gemm import tensor_batched, tensor_gemm, tensor_packed
from accel_cli.kernels.tensor_operands import DTYPES, Operands, Output, Packed, halves, packed_rows, step
from accel_cli.kernels.tensor_tile import Source
from accel_cli.kernels.wgmma_gemm import DEFAULT, LARGE, WgmmaTile, variants
from accel_cli.kernels.wgmma_gemm import SPLIT as SPLIT_TILE
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

HALF = 1e-3  # of values that are stored in fp16
TINY = WgmmaTile(1, 1, 64, 2)
ONE_BLOCK = WgmmaTile(1, 1, 64, 2, blocks=1)  # which makes tile after tile
WIDE = WgmmaTile(2, 1, 128, 2, blocks=1)
PAIR = WgmmaTile(1, 1, 64, 2, cluster=2, blocks=2)


# (M, N, K) about a tile and a step of k, 64 each: 1, less one, whole, one more, more steps than stages.
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(1, 1, 1), (63, 63, 63), (64, 64, 64), (65, 65, 65), (2, 130, 200), (130, 3, 321)],
)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, columns: int, depth: int) -> None:
    p = Product(FP16, rows, columns, depth)
    check(p.run(backend, TINY), p.expected() + p.bias, EXACT)


# One step, as many as there are stages, and an odd number, so that tiles begin at another stage each time.
@pytest.mark.parametrize("depth", [64, 128, 192])
def test_a_block_makes_many_tiles(backend: Backend, depth: int) -> None:
    p = Product(FP16, 130, 70, depth)
    check(p.run(backend, ONE_BLOCK), p.expected() + p.bias, EXACT)


# Tiles of fewer steps than there are stages, of as many, and of more.
@pytest.mark.parametrize(("groups", "stages", "cluster"), [(2, 2, 1), (2, 5, 2), (3, 4, 1)])
@pytest.mark.parametrize("depth", [64, 128, 448])
def test_groups_share_a_block(backend: Backend, groups: int, stages: int, cluster: int, depth: int) -> None:
    p = Product(FP16, 430, 70, depth)
    tile = WgmmaTile(groups, 1, 64, stages, cluster, blocks=cluster)
    check(p.run(backend, tile), p.expected() + p.bias, EXACT)


def test_groups_of_one_block_pool_and_weigh_their_own_rows(backend: Backend) -> None:
    tile = WgmmaTile(2, 1, 64, 3, blocks=1)
    c = Convolution(FP16, LENGTHS * 4, 3, 64, 70)
    check(c.run_windows(backend, tile), c.expected(), EXACT)
    p = Experts(FP16, 197, 17, 4, 20)
    check(p.weighed(backend, tile, Output.FP32, relu=False), p.expected_weighed(relu=False), EXACT)


# Values of 16 bits wait for the next tile: 64 columns for two steps of it. Fewer steps, as many, more; whole
# tiles, then ragged ones; rows that do not begin at multiples of 16 bytes.
@pytest.mark.parametrize("depth", [64, 128, 200])
@pytest.mark.parametrize("columns", [128, 136, 70])
def test_a_tile_is_stored_while_the_next_one_is_multiplied(
    backend: Backend, columns: int, depth: int
) -> None:
    p = Product(FP16, 130, columns, depth)
    got = p.run(backend, ONE_BLOCK, Output.FP16)
    check(got, p.expected() + p.bias, HALF)
    check_bits(got, p.run(backend, TINY, Output.FP16))


def test_groups_and_wide_tiles_wait_for_the_next_one(backend: Backend) -> None:
    p = Product(FP16, 300, 264, 200)
    check_bits(p.run(backend, WIDE, Output.FP16), p.run(backend, TINY, Output.FP16))
    e = Experts(FP16, 300, 66, 4, 200)
    check_bits(
        e.weighed(backend, WIDE, Output.FP16, relu=True), e.weighed(backend, TINY, Output.FP16, relu=True)
    )


@pytest.mark.parametrize(("biased", "relu"), [(False, False), (True, True)])
def test_stored_later_without_a_bias_or_with_relu(backend: Backend, biased: bool, relu: bool) -> None:
    p = Product(FP16, 130, 136, 200)
    y = backend.array(poisoned((130, 152), np.float16))
    a, bias = backend.array(stored(p.a, FP16)), backend.array(p.bias) if biased else None
    arrays = (a, p.packed(backend), bias, y)
    tensor_gemm(backend.run, *arrays, tile=ONE_BLOCK, output=Output.FP16, column=8, relu=relu)
    got, sums = backend.numpy(y), p.expected() + (p.bias if biased else 0)
    check(got[:, 8:144], np.maximum(sums, 0) if relu else sums, HALF)
    assert np.isnan(got[:, :8]).all()
    assert np.isnan(got[:, 144:]).all()


def test_a_group_of_two_tiles_stores_at_once(backend: Backend) -> None:
    tile, p = WgmmaTile(1, 2, 64, 2, blocks=1), Product(FP16, 130, 72, 200)
    check_bits(p.run(backend, tile, Output.FP16), p.run(backend, TINY, Output.FP16))
    e = Experts(FP16, 130, 20, 4, 100)
    check(e.weighed(backend, tile, Output.FP32, relu=False), e.expected_weighed(relu=False), EXACT)


# Values of four experts: of whole tiles and ragged ones, in pieces of 16 bytes and singly.
@pytest.mark.parametrize(("hidden", "depth"), [(32, 20), (40, 200), (37, 200)])
def test_weighed_values_wait_for_the_next_tile(backend: Backend, hidden: int, depth: int) -> None:
    p = Experts(FP16, 130, hidden, 4, depth)
    got = p.weighed(backend, ONE_BLOCK, Output.FP16, relu=True)
    check(got, p.expected_weighed(relu=True), HALF)
    check_bits(got, p.weighed(backend, TINY, Output.FP16, relu=True))


def test_tiles_in_two_bands(backend: Backend) -> None:
    p = Product(FP16, 16 * 64 + 1, 70, 5)
    check(p.run(backend, WgmmaTile(1, 1, 64, 2, blocks=3)), p.expected() + p.bias, EXACT)


@pytest.mark.parametrize("blocks", [2, 5, 0])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 1, 1), (130, 70, 192), (64, 9, 321)])
def test_a_cluster_shares_the_weights(
    backend: Backend, blocks: int, rows: int, columns: int, depth: int
) -> None:
    p = Product(FP16, rows, columns, depth)  # of one or three tiles of rows, so that a block has none
    tile = WgmmaTile(1, 1, 64, 2, cluster=2, blocks=blocks)
    check(p.run(backend, tile), p.expected() + p.bias, EXACT)


@pytest.mark.parametrize("operands", [BF16, TF32, SPLIT], ids=named)
def test_every_type(backend: Backend, operands: Operands) -> None:
    p = Product(operands, 65, 66, 330)
    check(p.run(backend, ONE_BLOCK), p.expected() + p.bias, EXACT)


def test_scaled_weights(backend: Backend) -> None:
    p = Product(SPLIT, 5, 7, 100)
    y = backend.array(poisoned((5, 7)))
    a, bias = backend.array(stored(p.a, SPLIT)), backend.array(p.bias)
    tensor_gemm(backend.run, a, p.packed(backend, 4096.0), bias, y, tile=TINY)
    check(backend.numpy(y), p.a.astype(np.float64) @ p.weight.astype(np.float64).T + p.bias, EXACT)


def test_reads_longer_rows_and_writes_a_part_of_a_row(backend: Backend) -> None:
    p = Product(FP16, 5, 7, 100)
    a = backend.array(with_zeros(stored(p.a, FP16), 136))
    y = backend.array(poisoned((5, 12)))
    tensor_gemm(backend.run, a, p.packed(backend), backend.array(p.bias), y, column=3, tile=TINY)
    got = backend.numpy(y)
    check(got[:, 3:10], p.expected() + p.bias, EXACT)
    assert np.isnan(got[:, :3]).all()
    assert np.isnan(got[:, 10:]).all()


@pytest.mark.parametrize(
    ("operands", "tile", "output"),
    [(FP16, TINY, Output.FP32), (TF32, PAIR, Output.BF16), (SPLIT, PAIR, Output.SPLIT)],
    ids=str,
)
@pytest.mark.parametrize("rows", [1, 65, 135])
def test_multiplies_packed_rows(
    backend: Backend, operands: Operands, tile: WgmmaTile, output: Output, rows: int
) -> None:
    p = Product(operands, rows, 70, 100)
    got = multiply_packed(backend, p, tile, output)
    expected = np.maximum(p.expected() + p.bias, 0)
    check(values(got, output), expected, 8e-3 if output == Output.BF16 else EXACT)


@pytest.mark.parametrize("output", [Output.FP32, Output.FP16])
def test_relu_keeps_a_nan(backend: Backend, output: Output) -> None:
    p = Product(FP16, 9, 10, 20)
    p.a[3, 5] = np.nan
    got, good = multiply_packed(backend, p, TINY, output), np.arange(9) != 3
    assert np.isnan(got[3]).all()
    tolerance = HALF if output == Output.FP16 else EXACT
    check(got[good], np.maximum(p.expected() + p.bias, 0)[good], tolerance)


def multiply_packed(backend: Backend, p: Product, tile: WgmmaTile, output: Output) -> np.ndarray:
    """The product and ReLU, its rows packed by cast_packed."""
    (rows, depth), operands = p.a.shape, p.operands
    steps, width = -(-depth // step(operands.type)), step(operands.type)
    shape = (*halves(operands.stored), steps, packed_rows(rows), width)
    a = backend.array(poisoned(shape, operands.dtype))
    cast_packed(backend.run, backend.array(p.a), a, operands.stored)
    y = backend.array(poisoned((*halves(output), rows, p.columns), DTYPES[output]))
    weights, bias = p.packed(backend), backend.array(p.bias)
    tensor_packed(backend.run, a, weights, bias, y, tile=tile, output=output, relu=True)
    return backend.numpy(y)


def test_a_batch_of_products(backend: Backend) -> None:
    p = Product(SPLIT, 70, 18, 150, batch=(2,))
    y = backend.array(poisoned((2, 2, 70, 18), SPLIT.dtype))
    a = backend.array(stored(p.a, SPLIT))
    tensor_batched(backend.run, a, p.packed(backend), y, tile=ONE_BLOCK, output=Output.SPLIT)
    check(values(backend.numpy(y), Output.SPLIT), p.expected(), EXACT)


@pytest.mark.parametrize(("operands", "dimension", "filters"), [(FP16, 64, 70), (TF32, 5, 7)], ids=str)
def test_convolves_windows_and_keeps_the_largest(
    backend: Backend, operands: Operands, dimension: int, filters: int
) -> None:
    c = Convolution(operands, LENGTHS * 2, 3, dimension, filters)
    check(c.run_windows(backend, ONE_BLOCK), c.expected(), EXACT)


def test_a_nan_is_the_largest(backend: Backend) -> None:
    c = Convolution(FP16, [4, 6], 3, 8, 5)
    c.x[4, 2] = -np.nan
    got = c.run_windows(backend, TINY)
    assert np.isnan(got[1, 3:]).all()
    check(got[0], c.expected()[0], EXACT)


@pytest.mark.parametrize(
    ("operands", "dimension", "tile"), [(BF16, 100, PAIR), (SPLIT, 3, ONE_BLOCK)], ids=str
)
def test_takes_rows_of_the_table_by_their_ids(
    backend: Backend, operands: Operands, dimension: int, tile: WgmmaTile
) -> None:
    c = Convolution(operands, LENGTHS * 3, 3, dimension, 18)
    check(c.run_ids(backend, tile), c.expected(), EXACT)


@pytest.mark.parametrize(
    ("experts", "hidden", "output", "relu"),
    [(4, 17, Output.FP32, False), (2, 33, Output.SPLIT, False), (1, 5, Output.FP16, True)],
)
def test_weighs_the_experts(backend: Backend, experts: int, hidden: int, output: Output, relu: bool) -> None:
    p = Experts(FP16, 67, hidden, experts, 20)
    got = values(p.weighed(backend, ONE_BLOCK, output, relu), output)
    check(got, p.expected_weighed(relu), 1e-3 if output == Output.FP16 else EXACT)


@pytest.mark.extras
def test_weighs_the_experts_of_packed_rows(backend: Backend) -> None:
    p = Experts(FP16, 67, 17, 4, 20)
    plain = p.weighed(backend, ONE_BLOCK, Output.FP16, True)
    assert np.array_equal(p.weighed(backend, ONE_BLOCK, Output.FP16, True, Source.PACKED), plain)


@pytest.mark.parametrize(("operands", "output"), SHORTCUTS, ids=str)
def test_adds_what_was_multiplied_to_what_relu_leaves(
    backend: Backend, operands: Operands, output: Output
) -> None:
    p = Shortcut(operands, 35, 69)
    tolerance = 1e-3 if output in (Output.FP16, Output.TF32) else EXACT
    check(p.added(backend, ONE_BLOCK, output), p.expected_added(), tolerance)


@pytest.mark.parametrize("tile", [WgmmaTile(2, 1, 128, 3), WgmmaTile(1, 2, 192, 2)], ids=str)
def test_every_tile_gives_the_same_bits(backend: Backend, tile: WgmmaTile) -> None:
    p = Product(FP16, 131, 135, 200)
    check_bits(p.run(backend, tile), p.run(backend, TINY))


def test_a_row_does_not_depend_on_its_batch(backend: Backend) -> None:
    p = Product(BF16, 80, 17, 50)
    whole = p.run(backend, TINY)
    p.a = p.a[77:78]
    check_bits(p.run(backend, TINY), whole[77:78])


def test_blocks_are_whole_clusters_and_no_more_than_tiles() -> None:
    assert TINY.grid(65, 129, 2) == (6, 1, 2)
    assert ONE_BLOCK.grid(65, 129, 2) == (1, 1, 2)
    assert PAIR.grid(130, 64, 1) == (2, 1, 1)
    assert WgmmaTile(1, 1, 64, 2, cluster=2).grid(130, 64, 1) == (4, 1, 1)
    assert WgmmaTile(1, 1, 64, 2, cluster=2, blocks=5).grid(1000, 64, 1) == (4, 1, 1)


def test_which_tiles_are_legal() -> None:
    limit = shared_limit((9, 0))
    assert all(tile.legal(FP16, limit, source) for tile in (LARGE, DEFAULT) for source in Source)
    assert SPLIT_TILE.legal(SPLIT, limit)
    assert not LARGE.legal(SPLIT, limit)
    assert not DEFAULT.legal(SPLIT, limit)
    assert not DEFAULT.legal(FP16, shared_limit((8, 0)))
    for groups, tall, columns in [(4, 1, 64), (1, 3, 64), (3, 2, 64), (3, 1, 192), (1, 2, 256), (1, 1, 96)]:
        assert not WgmmaTile(groups, tall, columns, 2).legal(FP16, limit)
    assert not WgmmaTile(1, 1, 64, 1).legal(FP16, limit)
    assert not WgmmaTile(1, 1, 64, 2, cluster=3).legal(FP16, limit)


def test_it_exists_for_one_architecture() -> None:
    [kernel] = {launch.kernel for launch in variants()}
    assert [name for name in ("sm_80", "sm_90", "sm_90a", "sm_100") if kernel.exists_for(name)] == ["sm_90a"]


def test_refuses_what_does_not_fit() -> None:
    y, bias = np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
    packed = Packed(np.zeros((1, 8, 64), np.float16), 3, FP16)

    def multiply(a: np.ndarray) -> None:
        tensor_packed(lambda *_: None, a, packed, bias, y, tile=TINY)

    with pytest.raises(ValueError, match=r"tensor_packed a: shape \(1, 2, 64\), expected \(1, 8, 64\)"):
        multiply(np.zeros((1, 2, 64), np.float16))
    with pytest.raises(TypeError, match="wgmma_gemm a: expected an array of float16, got float32"):
        multiply(random_floats(1, 8, 64))
