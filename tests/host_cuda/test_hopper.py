"""The instructions of kernels_cu/ptx.cuh that came with sm_90, and the twins of them, against numpy."""

import numpy as np
import pytest

from accel_cli.kernels.base import Array, Kernel, Launch
from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats
from host_cuda.probes import PROBES, announced, bulk, early, multicast, warpgroup

SWIZZLES = {"none": 0, "128": 1, "64": 2, "32": 3}
KINDS = {"f16": 0, "bf16": 1, "tf32": 2}


@pytest.fixture(autouse=True)
def _needs_hopper(backend: Backend) -> None:
    if backend.capability != (9, 0):
        pytest.skip("wgmma and setmaxnreg are for sm_90a alone")


@pytest.mark.parametrize("tiles", [1, 2, 3, 9])
def test_bulk_copies_through_a_ring(backend: Backend, tiles: int) -> None:
    x = random_floats(tiles, 256)
    y = backend.array(poisoned(256))
    bulk(backend.runner(PROBES), backend.array(x), y)
    check(backend.numpy(y), x.astype(np.float64).sum(axis=0), 1e-6)


@pytest.mark.parametrize("tiles", [1, 2, 3, 9])
def test_copies_that_an_arrival_announces(backend: Backend, tiles: int) -> None:
    x = random_floats(tiles, 256)
    y = backend.array(poisoned(256))
    announced(backend.runner(PROBES), backend.array(x), y)
    check(backend.numpy(y), x.astype(np.float64).sum(axis=0), 1e-6)


def test_kernels_that_begin_before_those_ahead_have_ended(backend: Backend) -> None:
    """Each reads what the farthest blocks of the one ahead wrote, and writes where those read."""
    count, rounds = (1 << 20, 200) if backend.name == "cuda" else (200, 2)
    x, run = np.arange(count, dtype=np.int32), backend.runner(PROBES)
    there, other = backend.array(x), backend.array(poisoned(count, "int32"))
    for _ in range(rounds):
        early(run, there, other)
        early(run, other, there)
    np.testing.assert_array_equal(backend.numpy(there), x + 2 * rounds)


@pytest.mark.parametrize(("cluster", "tiles"), [(1, 3), (2, 1), (2, 9), (4, 5), (8, 2)])
def test_copies_into_all_blocks_of_a_cluster(backend: Backend, cluster: int, tiles: int) -> None:
    x = random_floats(3, tiles, 256)
    y = backend.array(poisoned((3 * cluster, 256)))
    multicast(backend.runner(PROBES), backend.array(x), y, cluster)
    expected = x.astype(np.float64).sum(axis=1)[:, None] * np.arange(1, cluster + 1)[:, None]
    check(backend.numpy(y), expected.reshape(-1, 256), 1e-6)


def test_fragments_written_back(backend: Backend) -> None:
    kernel = Kernel("stored", (Array("x", "uint16"), Array("y", "uint16", written=True)))
    x = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    y = backend.array(poisoned((32, 8), "uint16"))
    backend.runner(PROBES)(Launch(kernel, (), (1, 1, 1), (32, 1, 1)), backend.array(x.reshape(32, 8)), y)
    np.testing.assert_array_equal(backend.numpy(y).reshape(4, 8, 8), x.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("n", "swizzle", "kind"),
    [
        (64, "none", "f16"),
        (64, "32", "bf16"),
        (64, "64", "f16"),
        (64, "128", "f16"),
        (64, "128", "tf32"),
        (128, "128", "bf16"),
        (128, "128", "f16"),
        (128, "none", "tf32"),
        (192, "128", "f16"),
        (192, "64", "bf16"),
        (192, "128", "tf32"),
        (256, "none", "bf16"),
        (256, "128", "f16"),
        (256, "128", "tf32"),
    ],
)
def test_products_of_a_warpgroup(backend: Backend, n: int, swizzle: str, kind: str) -> None:
    random = np.random.default_rng(n)
    # Small whole numbers: every order of summation is exact.
    depth = 32 if kind == "tf32" else 64
    a, b = (random.integers(-8, 9, (rows, depth)).astype(np.float32) for rows in (64, n))
    c = random.integers(-100, 100, (64, n)).astype(np.float32)
    if kind == "f16":
        bits = [x.astype(np.float16).view(np.uint16) for x in (a, b)]
    elif kind == "bf16":
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    else:
        bits = [x.view(np.uint32) | 0x1FFF for x in (a, b)]  # the last 13 bits do not count
    for add in (False, True):
        d = backend.array(poisoned((64, n)))
        inputs = [backend.array(array) for array in (*bits, c)]
        warpgroup(backend.runner(PROBES), *inputs, d, add, SWIZZLES[swizzle], KINDS[kind])
        check(backend.numpy(d), a @ b.T + add * c, EXACT)
