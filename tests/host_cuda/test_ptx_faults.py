"""Faults of asynchronous kernels, planted one each: what ends later than it begins must be waited for."""

import numpy as np
import pytest

from accel_cli.kernels.base import Runner
from host_cuda.checks import check, poisoned, random_floats
from host_cuda.planting import Plant
from host_cuda.probes import PROBES, bulk, copies, named, tile_product, warpgroup
from host_cuda.runner import KernelFaultError

COPIES, BULK, NAMED, WARPGROUP = (PROBES / f"{name}.cu" for name in ("copies", "bulk", "named", "warpgroup"))


def copy_backwards(run: Runner, given: int = 2048) -> None:
    x = np.arange(given).astype(np.uint8)
    y = poisoned(2048, "uint8")
    copies(run, x, y, size=16)
    np.testing.assert_array_equal(y.reshape(2, 64, 16)[:, ::-1].ravel()[:given], x)


def add_tiles(run: Runner) -> None:
    x, y = random_floats(5, 256), poisoned(256)
    bulk(run, x, y)
    check(y, x.astype(np.float64).sum(axis=0), 1e-6)


def multiply(run: Runner) -> None:
    a, b, d = (
        random_floats(64, 64, dtype="float16"),
        random_floats(64, 64, dtype="float16"),
        poisoned((64, 64)),
    )
    warpgroup(run, a.view(np.uint16), b.view(np.uint16), np.zeros((64, 64), np.float32), d, swizzle=1)
    check(d, a.astype(np.float64) @ b.T.astype(np.float64), 1e-5)


def test_a_copy_that_nobody_waits_for(plant: Plant) -> None:
    run = plant(COPIES, "ptx::cp_async_wait_group<1>();", "{}")
    with pytest.raises(KernelFaultError, match="y differs from the order forward"):
        copy_backwards(run)


def test_a_misaligned_copy(plant: Plant) -> None:
    run = plant(COPIES, "copy(&tile[half][threadIdx.x * SIZE]", "copy(&tile[half][threadIdx.x * SIZE + 4]")
    with pytest.raises(KernelFaultError, match=r"copies.cu:\d+: cp.async: an address is misaligned, 4 bytes"):
        copy_backwards(run)


def test_a_copy_from_behind_the_end(plant: Plant) -> None:
    run = plant(COPIES, "left < SIZE ? left : SIZE", "SIZE")
    with pytest.raises(KernelFaultError, match="access 0 bytes behind the end of x"):
        copy_backwards(run, given=1000)


def test_reading_before_the_bulk_copy_has_come(plant: Plant) -> None:
    run = plant(BULK, "while (!ptx::mbarrier_try_wait_parity(&full[slot], round % 2)) {}", "")
    with pytest.raises(KernelFaultError):
        add_tiles(run)


def test_a_slot_filled_before_it_is_free(plant: Plant) -> None:
    run = plant(BULK, "while (!ptx::mbarrier_try_wait_parity(&empty[slot], round % 2 ^ 1)) {}", "")
    with pytest.raises(KernelFaultError, match="more arrivals in a phase than its count of 1"):
        add_tiles(run)


def test_a_phase_that_never_ends(plant: Plant) -> None:
    run = plant(BULK, "ptx::mbarrier_arrive(&empty[slot]);", "if (i) ptx::mbarrier_arrive(&empty[slot]);")
    with pytest.raises(
        KernelFaultError, match=r"1 of 256 threads wait in a barrier in shared memory at .*bulk.cu:25"
    ):
        add_tiles(run)


def test_a_named_barrier_with_two_counts(plant: Plant) -> None:
    run = plant(NAMED, "ptx::barrier_sync(full, 128);", "ptx::barrier_sync(full, 64);")
    with pytest.raises(
        KernelFaultError, match=r"barrier 1 for \d+ threads, but .*named.cu:\d+ came to it for \d+"
    ):
        named(run, np.zeros((3, 64), np.int32), poisoned((3, 64), "int32"))


def test_a_tile_overwritten_while_others_read_it(plant: Plant) -> None:
    run = plant(PROBES / "tile_product.cu", "__syncthreads();  // all have read", "")
    a, b = random_floats(64, 160, dtype="float16"), random_floats(64, 160, seed=1, dtype="float16")
    with pytest.raises(KernelFaultError, match="c differs from the order forward"):
        tile_product(run, a, b, poisoned((64, 64)))


def test_products_that_nobody_waits_for(plant: Plant) -> None:
    run = plant(WARPGROUP, "ptx::wgmma_wait_group<0>();", "")
    with pytest.raises(KernelFaultError, match="d differs from the order forward"):
        multiply(run)


def test_products_of_a_tile_that_is_not_there_yet(plant: Plant) -> None:
    run = plant(WARPGROUP, "ptx::fence_proxy_async();\n    __syncthreads();", "ptx::fence_proxy_async();")
    with pytest.raises(KernelFaultError, match="d differs from the order forward"):
        multiply(run)
