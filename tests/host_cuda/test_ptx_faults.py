"""Faults of asynchronous kernels, planted one each: what ends later than it begins must be waited for."""

from collections.abc import Callable

import numpy as np
import pytest

from accel_cli.kernels.base import Runner
from host_cuda.checks import check, poisoned, random_floats
from host_cuda.planting import Plant
from host_cuda.probes import (
    PROBES,
    announced,
    bulk,
    copies,
    early,
    multicast,
    named,
    tile_product,
    warpgroup,
)
from host_cuda.runner import HostRunner, KernelFaultError

COPIES, BULK, NAMED, WARPGROUP, ANNOUNCED, MULTICAST, EARLY = (
    PROBES / f"{name}.cu"
    for name in ("copies", "bulk", "named", "warpgroup", "announced", "multicast", "early")
)


def copy_backwards(run: Runner, given: int = 2048) -> None:
    x = np.arange(given).astype(np.uint8)
    y = poisoned(2048, "uint8")
    copies(run, x, y, size=16)
    np.testing.assert_array_equal(y.reshape(2, 64, 16)[:, ::-1].ravel()[:given], x)


def add_tiles(run: Runner, probe: Callable[..., None] = bulk) -> None:
    x, y = random_floats(5, 256), poisoned(256)
    probe(run, x, y)
    check(y, x.astype(np.float64).sum(axis=0), 1e-6)


def add_in_clusters(run: Runner, blocks: int = 4) -> None:
    x, y = random_floats(2, 5, 256), poisoned((blocks, 256))
    multicast(run, x, y, cluster=2)
    sums = x.astype(np.float64).sum(axis=1)
    check(y, np.repeat(sums, 2, axis=0) * [[1], [2], [1], [2]], 1e-6)


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


def test_an_arrival_ahead_of_its_copies(plant: Plant) -> None:
    copy = "ptx::cp_async_16(&ring[slot][i], x + tile * 256 + i);"
    arrival = "ptx::cp_async_mbarrier_arrive_noinc(&full[slot]);"
    run = plant(ANNOUNCED, f"{copy}\n            {arrival}", f"{arrival}\n            {copy}")
    with pytest.raises(KernelFaultError, match="y differs from the order forward"):
        add_tiles(run, announced)


def test_reading_before_the_copies_are_announced(plant: Plant) -> None:
    run = plant(ANNOUNCED, "while (!ptx::mbarrier_try_wait_parity(&full[slot], round % 2)) {}", "")
    with pytest.raises(KernelFaultError):
        add_tiles(run, announced)


def test_an_arrival_that_tells_of_nothing(plant: Plant) -> None:
    run = plant(ANNOUNCED, "cp_async_mbarrier_arrive_noinc", "mbarrier_arrive")
    with pytest.raises(KernelFaultError, match="y differs from the order forward"):
        add_tiles(run, announced)


@pytest.mark.parametrize("count", [32, 96])
def test_a_barrier_of_another_count(plant: Plant, count: int) -> None:
    run = plant(ANNOUNCED, "&full[slot], 64)", f"&full[slot], {count})")
    with pytest.raises(KernelFaultError, match=r"64 of 128 threads wait in a barrier .*announced.cu:31"):
        add_tiles(run, announced)


def test_a_block_that_ends_while_others_arrive_at_its_barriers(plant: Plant) -> None:
    run = plant(MULTICAST, "ptx::cluster_wait();", "")
    with pytest.raises(
        KernelFaultError, match=r"mbarrier.arrive to block [01] of the cluster, which has ended"
    ):
        add_in_clusters(run)


def test_a_copy_into_a_block_that_has_ended(plant: Plant) -> None:
    run = plant(MULTICAST, "const int share", "if (ptx::cluster_rank()) return;\n    const int share")
    run = plant(run.folder / MULTICAST.name, "ptx::cluster_sync();", "")
    with pytest.raises(KernelFaultError, match=r"cp.async.bulk to block 1 of the cluster, which has ended"):
        add_in_clusters(run)


def test_a_slot_that_other_blocks_still_read(plant: Plant) -> None:
    run = plant(
        MULTICAST,
        "ptx::mbarrier_init(&empty[slot], CLUSTER * warps);",
        "ptx::mbarrier_init(&empty[slot], warps);",
    )
    with pytest.raises(KernelFaultError):
        add_in_clusters(run)


def test_a_block_that_nobody_tells_of_free_slots(plant: Plant) -> None:
    run = plant(MULTICAST, "if (threadIdx.x % 32 >= CLUSTER) continue", "if (threadIdx.x % 32 >= 1) continue")
    with pytest.raises(KernelFaultError, match=r"only a part of the cluster reaches a barrier") as caught:
        add_in_clusters(run)
    assert "256 of 320 threads wait in a barrier in shared memory" in str(caught.value)
    assert "of block (0, 0, 0)" in str(caught.value)


def test_barriers_that_another_block_has_not_made_yet(plant: Plant) -> None:
    run = plant(MULTICAST, "ptx::cluster_sync();  // all barriers are there", "__syncthreads();")
    with pytest.raises(KernelFaultError):
        add_in_clusters(run)


def test_a_meeting_of_the_cluster_left_out_by_some(plant: Plant) -> None:
    run = plant(
        MULTICAST,
        "__syncwarp();\n    ptx::cluster_arrive();",
        "if (threadIdx.x >= 128) return;\n    ptx::cluster_arrive();",
    )
    with pytest.raises(
        KernelFaultError, match="only a part of the cluster reaches the barrier of the cluster"
    ):
        add_in_clusters(run)


def test_a_meeting_without_an_arrival(plant: Plant) -> None:
    run = plant(MULTICAST, "ptx::cluster_arrive();", "")
    with pytest.raises(KernelFaultError, match=r"cluster_wait\(\) without cluster_arrive\(\)"):
        add_in_clusters(run)


def test_blocks_that_the_cluster_does_not_have(plant: Plant) -> None:
    run = plant(MULTICAST, "(1 << CLUSTER) - 1", "1 << CLUSTER")
    with pytest.raises(KernelFaultError, match=r"cp.async.bulk to the blocks of mask 0x4 in a cluster of 2"):
        add_in_clusters(run)


def test_a_grid_that_is_no_multiple_of_the_cluster() -> None:
    with pytest.raises(
        KernelFaultError, match="kernel multicast: a grid of 3 blocks along x, in clusters of 2"
    ):
        add_in_clusters(HostRunner(PROBES), blocks=3)


WAIT = "    ptx::griddepcontrol_wait();\n"


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        ("", r"early.cu:\d+: access before griddepcontrol.wait to x \(400 bytes\)"),
        ("    y[i] = 0;\n" + WAIT, r"access before griddepcontrol.wait to y \(400 bytes\)"),
        ("    if (count) return;\n", "a block has ended without griddepcontrol.wait"),
    ],
)
def test_arrays_touched_before_the_kernels_ahead_have_ended(plant: Plant, instead: str, words: str) -> None:
    with pytest.raises(KernelFaultError, match=words):
        early(plant(EARLY, WAIT, instead), np.arange(100, dtype=np.int32), poisoned(100, "int32"))
