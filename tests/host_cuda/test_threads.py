"""Grids and blocks of every shape, and how many threads a block may have."""

import numpy as np
import pytest

from accel_cli.kernels.base import Array, Kernel, Launch
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats
from host_cuda.probes import PROBES, block_sum


@pytest.mark.parametrize(
    ("grid", "block"),
    [((1, 1, 1), (1, 1, 1)), ((3, 2, 4), (5, 3, 2)), ((1, 7, 1), (1, 9, 1)), ((2, 1, 3), (8, 1, 7))],
)
def test_every_thread_runs_once(
    backend: Backend, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    kernel = Kernel("places", (Array("visits", "int32", written=True), Array("place", "int32", written=True)))
    shape = (*grid[::-1], *block[::-1])
    visits, place = backend.array(np.zeros(shape, np.int32)), backend.array(poisoned(shape, "int32"))
    backend.runner(PROBES)(Launch(kernel, (), grid, block), visits, place)
    assert np.all(backend.numpy(visits) == 1)
    z, y, x, tz, ty, tx = np.indices(shape)
    expected = ((z * 10 + y) * 10 + x) * 1000 + (tz * 10 + ty) * 10 + tx
    np.testing.assert_array_equal(backend.numpy(place), expected)


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_blocks_with_many_barriers(backend: Backend, threads: int) -> None:
    x = random_floats(3, 5000)
    y = backend.array(poisoned(3))
    block_sum(backend.runner(PROBES), backend.array(x), y, threads)
    check(backend.numpy(y), x.astype(np.float64).sum(axis=1), 1e-5)
