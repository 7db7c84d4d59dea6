"""Searching a tile for each product, without a GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import fake_cupy
import numpy as np
import pytest
import tuning
from kernels.packed import pack
from tuning import DEEP, FASTER, FLAT, TALL, Compiler, Device, tile_of

from accel_cli.bench import tile_search
from accel_cli.bench.tile_search import TileSearch
from accel_cli.cuda.device import facts
from accel_cli.cuda.errors import DeviceLost
from accel_cli.engines.tuned import Product
from accel_cli.kernels.base import Launch
from accel_cli.kernels.sgemm import sgemm, sgemm_windows
from accel_cli.kernels.sgemm_tile import DEFAULT, Tile


@pytest.fixture(autouse=True)
def _cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tuning.fake_gpu(monkeypatch, tmp_path / "cache")


def searched(
    monkeypatch: pytest.MonkeyPatch, device: Device, *bad: Tile, seconds: float = 100.0
) -> tuple[TileSearch, list[str]]:
    told: list[str] = []
    monkeypatch.setattr(tile_search, "device_times", device.times)
    search = TileSearch(device, facts(0), Compiler(*bad), told.append)
    search.begin(seconds)
    return search, told


A, B = (
    np.random.default_rng(seed).standard_normal(shape, np.float32)
    for seed, shape in ((1, (70, 20)), (2, (36, 20)))
)
PRODUCT = Product(70, 36, 20)


def multiply(run: Any) -> np.ndarray:
    y = fake_cupy.empty((70, 36), np.float32)
    sgemm(run, fake_cupy.asarray(A), fake_cupy.asarray(pack(B)), None, y, tile=DEFAULT)
    return fake_cupy.asnumpy(y)


@pytest.mark.extras
def test_the_fastest_tile_wins_and_the_product_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    search, told = searched(monkeypatch, device)
    np.testing.assert_array_equal(multiply(search), multiply(device))
    found = search.found[PRODUCT]
    assert (found.winner.tile, found.before.tile) == (FLAT, DEFAULT)
    assert found.winner.tflops == pytest.approx(PRODUCT.flop / 1e12)
    assert DEEP not in device.timed
    assert told == [str(found)]
    assert "70x36x20: [32, 64, 16, 4, 4, 3] at 0.0 TFLOP/s, +200.0 %" in told[0]
    seen = len(device.timed)
    multiply(search)  # known by now
    assert len(device.timed) == seen


def test_before_it_begins_it_only_takes_note(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    monkeypatch.setattr(tile_search, "device_times", lambda *_: pytest.fail("timed"))
    search = TileSearch(device, facts(0), Compiler(), print)
    multiply(search)
    multiply(search)
    assert search.products == [PRODUCT]
    assert search.found == {}


def test_a_tile_with_another_result_is_refused_by_name_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(spoil=FLAT)
    search, told = searched(monkeypatch, device)
    found = multiply(search)
    assert search.found[PRODUCT].winner.tile == TALL
    assert FLAT not in device.timed
    assert told[0] == (
        "70x36x20: the tile [32, 64, 16, 4, 4, 3] is refused: its result differs from that of the tile in use"
    )
    np.testing.assert_array_equal(found, multiply(Device()))


def test_a_tile_that_does_not_compile_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    search, told = searched(monkeypatch, Device(), FLAT, TALL)
    multiply(search)
    assert search.found[PRODUCT].winner.tile == DEFAULT
    assert [line.partition("refused: ")[2] for line in told[:2]] == ["kernel sgemm does not compile"] * 2


def test_a_tile_that_breaks_the_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    search, _ = searched(monkeypatch, device)
    run = device._run

    def launch(launch: Launch, *arguments: Any) -> None:
        if tile_of(launch) == FLAT:
            raise fake_cupy.CUDADriverError("CUDA_ERROR_ILLEGAL_ADDRESS")
        run(launch, *arguments)

    device._run = launch
    with pytest.raises(
        DeviceLost, match=r"while trying the tile \[32, 64, 16, 4, 4, 3\]: CUDA_ERROR_ILLEGAL"
    ):
        multiply(search)


def test_a_tile_no_faster_than_noise_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FASTER, DEFAULT, 1.004)
    monkeypatch.setitem(FASTER, TALL, 1.1)
    search, _ = searched(monkeypatch, Device())
    multiply(search)
    assert search.found[PRODUCT].winner.tile == DEFAULT


def test_without_time_the_tile_in_use_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    search, told = searched(monkeypatch, device, seconds=0.0)
    np.testing.assert_array_equal(multiply(search), multiply(Device()))
    assert (search.products, search.found, told, device.timed) == ([PRODUCT], {}, [], [])


def test_the_end_may_come_between_two_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    device, kept = Device(), []
    search, _ = searched(monkeypatch, device)
    search._keep = kept.append
    seconds = device.times

    def slow(*arguments: Any) -> Any:
        found = seconds(*arguments)
        if device.last == TALL:
            now[0] += 1000.0
        return found

    now = [time.monotonic()]
    monkeypatch.setattr(tile_search, "device_times", slow)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    order = [DEFAULT, TALL, FLAT, DEEP]
    monkeypatch.setattr(TileSearch, "_promise", lambda self, tile, product: -order.index(tile))
    np.testing.assert_array_equal(multiply(search), multiply(Device()))
    assert FLAT not in device.timed
    assert kept == [search.found[PRODUCT].winner]
    assert kept[0].tile == TALL


@pytest.mark.extras
def test_a_maximum_keeps_what_lies_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    x = fake_cupy.asarray(random.standard_normal((40, 12), np.float32))
    places = [
        fake_cupy.asarray(np.arange(38, dtype=np.int32)),
        fake_cupy.asarray(np.arange(38, dtype=np.int32) // 19),
    ]
    packed = fake_cupy.asarray(random.standard_normal((36, 8), np.float32))
    bias = fake_cupy.asarray(random.standard_normal(8, np.float32))

    def features(run: Any) -> np.ndarray:
        y = fake_cupy.asarray(
            np.concatenate([np.full((2, 5), 7.0), np.zeros((2, 8))], axis=1, dtype=np.float32)
        )
        sgemm_windows(run, x, *places, packed, bias, y, 5, tile=DEFAULT)
        return fake_cupy.asnumpy(y)

    device = Device(spoil=FLAT)
    search, told = searched(monkeypatch, device)
    np.testing.assert_array_equal(features(search), features(Device()))
    assert search.found[Product(38, 8, 36, kind="windows")].winner.tile == TALL
    assert "refused" in told[0]
