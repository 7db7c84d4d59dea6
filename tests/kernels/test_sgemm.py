import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, check_bits, poisoned, random_floats

from accel_cli.kernels.sgemm import (
    sgemm,
    sgemm_batched,
    sgemm_experts,
    sgemm_ids,
    sgemm_residual,
    sgemm_windows,
)
from accel_cli.kernels.sgemm_tile import DEFAULT, SMALL, Tile, candidates, shared_limit
from kernels.packed import pack
from kernels.ragged import offsets_of, windows

TINY = Tile(32, 32, 8, 4, 4, 2)  # 64 threads
TIGHT, LEAST = Tile(64, 128, 16, 8, 8, 3), Tile(32, 32, 16, 4, 4, 4)
TALL = Tile(64, 32, 8, 8, 4, 3)  # a warp of 4 x 8 threads

# (M, N, K) about TINY and its steps of k: 1, less one, whole, one more, what divides nothing, two bands.
SHAPES = [
    (1, 1, 1),
    (31, 31, 7),
    (32, 32, 8),
    (33, 33, 9),
    (1, 2, 50),
    (70, 5, 33),
    (3, 100, 64),
    (545, 36, 5),
]


def product(a: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ weight.astype(np.float64).T


def multiply(
    backend: Backend,
    a: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    tile: Tile,
    relu: bool = False,
) -> np.ndarray:
    y = backend.array(poisoned((len(a), len(weight))))
    on_device = None if bias is None else backend.array(bias)
    packed = backend.array(pack(weight))
    sgemm(backend.run, backend.array(a), packed, on_device, y, relu=relu, tile=tile)
    return backend.numpy(y)


@pytest.mark.parametrize(("rows", "columns", "depth"), SHAPES)
def test_multiplies_and_adds_the_bias(backend: Backend, rows: int, columns: int, depth: int) -> None:
    a, weight, bias = (
        random_floats(rows, depth),
        random_floats(columns, depth, seed=1),
        random_floats(columns),
    )
    check(multiply(backend, a, weight, bias, TINY), product(a, weight) + bias)


@pytest.mark.parametrize("tile", [DEFAULT, TALL, TIGHT, LEAST], ids=str)
def test_every_tile_gives_the_same_bits(backend: Backend, tile: Tile) -> None:
    a, weight, bias = random_floats(131, 37), random_floats(66, 37, seed=1), random_floats(66)
    got = multiply(backend, a, weight, bias, tile)
    check(got, product(a, weight) + bias)
    check_bits(got, multiply(backend, a, weight, bias, TINY))


def test_relu_without_a_bias_into_a_part_of_a_row(backend: Backend) -> None:
    a, weight = random_floats(9, 20), random_floats(10, 20, seed=1)
    a[3, 5] = np.nan
    y = backend.array(poisoned((9, 14)))
    sgemm(backend.run, backend.array(a), backend.array(pack(weight)), None, y, column=4, relu=True, tile=TINY)
    got, good = backend.numpy(y), np.arange(9) != 3
    assert np.isnan(got[:, :4]).all()
    assert np.isnan(got[3]).all()
    check(got[good, 4:], np.maximum(product(a, weight)[good], 0))


@pytest.mark.extras  # a shortcut around a layer is tested with the engine's plans
def test_adds_what_was_multiplied_to_what_relu_leaves(backend: Backend) -> None:
    x, weight, bias = random_floats(35, 34), random_floats(34, 34, seed=1), random_floats(34)
    x[3, 5] = np.nan
    y = backend.array(poisoned((35, 34)))
    sgemm_residual(backend.run, *map(backend.array, (x, pack(weight), bias)), y, tile=TINY)
    got, good = backend.numpy(y), np.arange(35) != 3
    assert np.isnan(got[3]).all()
    check(got[good], (np.maximum(product(x, weight) + bias, 0) + x)[good])


def test_a_batch_of_products(backend: Backend) -> None:
    a, weights = random_floats(3, 33, 19), random_floats(3, 34, 19, seed=1)
    packed = pack(np.stack(weights))
    y = backend.array(poisoned((3, 33, 34)))
    sgemm_batched(backend.run, backend.array(a), backend.array(packed), y, tile=TINY)
    check(backend.numpy(y), np.stack([product(*pair) for pair in zip(a, weights, strict=True)]))


class Convolution:
    """Sentences, the windows that lie inside them, and what a convolution makes of them."""

    def __init__(self, lengths: list[int], width: int, dimension: int, filters: int) -> None:
        self.x = random_floats(sum(lengths), dimension)
        self.weight = random_floats(filters, width * dimension, seed=1)
        self.bias = random_floats(filters)
        places = list(windows(offsets_of(lengths), width))
        self.starts = np.concatenate([first + np.arange(count) for _, first, count in places]).astype(
            np.int32
        )
        self.owners = np.concatenate([[s] * count for s, _, count in places]).astype(np.int32)
        self.features = np.zeros((len(lengths), filters + 3), np.float32)

    def expected(self) -> np.ndarray:
        width = self.weight.shape[1] // self.x.shape[1]
        rows = np.stack([self.x[start : start + width].ravel() for start in self.starts])
        y = np.maximum(product(rows, self.weight) + self.bias, 0)
        pooled = [y[self.owners == sentence].max(0) for sentence in range(len(self.features))]
        return np.hstack([np.zeros((len(pooled), 3)), np.stack(pooled)])


LENGTHS = [4, 16, 3, 7, 5, 3, 16]


@pytest.mark.parametrize(("dimension", "filters"), [(8, 33), (5, 7)])
def test_convolves_windows_and_keeps_the_largest(backend: Backend, dimension: int, filters: int) -> None:
    c = Convolution(LENGTHS, 3, dimension, filters)
    features = backend.array(c.features)
    arrays = map(backend.array, (c.x, c.starts, c.owners, pack(c.weight), c.bias))
    sgemm_windows(backend.run, *arrays, features, 3, tile=TINY)
    check(backend.numpy(features), c.expected())


def test_a_nan_is_the_largest(backend: Backend) -> None:
    c = Convolution([4, 6], 3, 8, 5)
    c.x[4, 2] = -np.nan
    features = backend.array(c.features)
    arrays = map(backend.array, (c.x, c.starts, c.owners, pack(c.weight), c.bias))
    sgemm_windows(backend.run, *arrays, features, 3, tile=TINY)
    got = backend.numpy(features)
    assert np.isnan(got[1, 3:]).all()
    check(got[0], c.expected()[0])


def test_takes_rows_of_the_table_by_their_ids(backend: Backend) -> None:
    c = Convolution(LENGTHS, 3, 16, 33)
    order = np.random.default_rng(3).permutation(len(c.x))
    table = c.x[order]
    ids = np.argsort(order).astype(np.int32)
    features = backend.array(c.features)
    arrays = map(backend.array, (ids, table, c.starts, c.owners, pack(c.weight), c.bias))
    sgemm_ids(backend.run, *arrays, features, 3, tile=TINY)
    check(backend.numpy(features), c.expected())


@pytest.mark.parametrize(("experts", "hidden"), [(4, 9), (2, 33)])
def test_weighs_the_experts(backend: Backend, experts: int, hidden: int) -> None:
    h, gate = random_floats(35, 20), random_floats(35, experts)
    weight, bias = random_floats(hidden * experts, 20, seed=1), random_floats(hidden * experts)
    y = backend.array(poisoned((35, hidden)))
    sgemm_experts(backend.run, *map(backend.array, (h, gate, pack(weight), bias)), y, tile=TINY)
    outputs = (product(h, weight) + bias).reshape(35, hidden, experts)
    check(backend.numpy(y), np.einsum("mhe,me->mh", outputs, gate))


def test_a_row_does_not_depend_on_its_batch(backend: Backend) -> None:
    a, weight, bias = random_floats(40, 50), random_floats(33, 50, seed=1), random_floats(33)
    whole = multiply(backend, a, weight, bias, TINY)
    check(multiply(backend, a[37:38].copy(), weight, bias, TINY), whole[37:38], EXACT)


def test_candidates_are_legal() -> None:
    for capability in [(8, 0), (8, 6), (9, 0), (10, 0)]:
        tiles = candidates(capability)
        assert len(tiles) == len(set(tiles)) > 50
        assert DEFAULT in tiles
        assert SMALL in tiles
        assert all(tile.shared_bytes <= shared_limit(capability) for tile in tiles)
    assert not Tile(128, 128, 8, 16, 16, 2).legal(shared_limit((9, 0)))
    for block in ((256, 128), (128, 256)):  # 512 threads have 128 registers each, and would spill
        assert not Tile(*block, 16, 8, 8, 3).legal(shared_limit((9, 0)))


def test_a_processor_holds_what_registers_and_shared_memory_allow() -> None:
    limit = shared_limit((9, 0))
    held = {tile: tile.resident(limit) for tile in (DEFAULT, TIGHT, LEAST)}
    assert held == {DEFAULT: 2, TIGHT: 3, LEAST: 12}
    assert Tile(64, 128, 16, 8, 8, 5).resident(shared_limit((8, 6))) == 1  # 62 kB of 99
    assert Tile(128, 256, 16, 16, 8, 2).resident(limit) == 1


def test_refuses_what_does_not_fit() -> None:
    a, packed, bias, y = (np.zeros(shape, np.float32) for shape in [(2, 8), (8, 4), (3,), (2, 3)])
    with pytest.raises(ValueError, match="sgemm packed"):
        sgemm(lambda *_: None, a, packed[:7], bias, y)
    with pytest.raises(ValueError, match="sgemm y"):
        sgemm(lambda *_: None, a, packed, bias, y, column=1)
    with pytest.raises(ValueError, match="3 experts, expected 1, 2 or 4"):
        sgemm_experts(lambda *_: None, a, y, packed, bias, y)
    with pytest.raises(ValueError, match="sgemm_residual bias"):
        sgemm_residual(lambda *_: None, a, packed, bias, a)
    with pytest.raises(ValueError, match="sgemm packed"):
        sgemm_residual(lambda *_: None, a, packed, a[0], a)
    indices = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="dimension 8 is no multiple of the tile's 16"):
        sgemm_ids(lambda *_: None, indices, a, indices, indices, packed, bias, y, 0, tile=SMALL)
