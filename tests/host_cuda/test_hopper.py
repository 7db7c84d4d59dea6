"""The instructions of kernels_cu/ptx.cuh that came with sm_90, and the twins of them, against numpy."""

import numpy as np
import pytest

from host_cuda.backends import Backend
from host_cuda.checks import EXACT, check, poisoned, random_floats
from host_cuda.probes import PROBES, bulk, warpgroup

SWIZZLES = {"none": 0, "128": 1, "64": 2, "32": 3}


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


@pytest.mark.parametrize(
    ("n", "swizzle", "bfloat16"),
    [
        (64, "none", False),
        (64, "32", True),
        (64, "64", False),
        (64, "128", False),
        (128, "128", True),
        (128, "128", False),
        (256, "none", True),
        (256, "128", False),
    ],
)
def test_products_of_a_warpgroup(backend: Backend, n: int, swizzle: str, bfloat16: bool) -> None:
    random = np.random.default_rng(n)
    # Small whole numbers: every order of summation is exact.
    a, b = (random.integers(-8, 9, (rows, 64)).astype(np.float32) for rows in (64, n))
    c = random.integers(-100, 100, (64, n)).astype(np.float32)
    if bfloat16:
        bits = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    else:
        bits = [x.astype(np.float16).view(np.uint16) for x in (a, b)]
    for add in (False, True):
        d = backend.array(poisoned((64, n)))
        inputs = [backend.array(array) for array in (*bits, c)]
        warpgroup(backend.runner(PROBES), *inputs, d, add, SWIZZLES[swizzle], bfloat16)
        check(backend.numpy(d), a @ b.T + add * c, EXACT)
