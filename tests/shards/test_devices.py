"""Which device each worker has."""

from __future__ import annotations

import fake_cupy
import pytest

from accel_cli.cuda import device as module
from accel_cli.cuda.errors import DeviceFull
from accel_cli.engines.open import free_on
from accel_cli.errors import DeviceError, UsageError
from accel_cli.model.config import PlanSpec
from accel_cli.shards.devices import devices_of


@pytest.fixture
def _two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cupy", fake_cupy.module)
    monkeypatch.setattr("accel_cli.shards.devices.cupy", fake_cupy.module)
    monkeypatch.setattr(module, "missing", lambda: None)


@pytest.mark.usefixtures("_two_gpus")
@pytest.mark.parametrize(
    ("device", "workers", "found"),
    [
        ("auto", None, ["cuda:0"]),
        ("cpu", 3, ["cpu"] * 3),
        ("cuda:1", 2, ["cuda:1", "cuda:1"]),
        ("cuda:all", None, ["cuda:0", "cuda:1"]),
        ("cuda:1,0", None, ["cuda:1", "cuda:0"]),
        ("cuda:0,0,1", None, ["cuda:0", "cuda:0", "cuda:1"]),
    ],
)
def test_as_named(device: str, workers: int | None, found: list[str]) -> None:
    assert devices_of(PlanSpec(), device, workers) == found


def test_the_configuration_may_name_it() -> None:
    assert devices_of(PlanSpec(device="cpu"), "auto", 2) == ["cpu", "cpu"]


@pytest.mark.usefixtures("_two_gpus")
def test_one_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match=r"--device cuda:2: there are 2 devices, cuda:0 to cuda:1"):
        devices_of(PlanSpec(), "cuda:0,2")


@pytest.mark.parametrize("device", ["cuda:all", "cuda:0,1"])
def test_none_at_all(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing", lambda: "no driver")
    with pytest.raises(DeviceError, match="no driver"):
        devices_of(PlanSpec(), device)


def test_one_without_memory_for_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(index: int) -> int:
        raise fake_cupy.CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")

    monkeypatch.setattr("accel_cli.cuda.errors.cupy", fake_cupy.module)
    monkeypatch.setattr("accel_cli.engines.open.free_memory", full)
    with pytest.raises(DeviceFull, match=r"memory is full while asking how much is free: cudaErrorMemoryAll"):
        free_on("cuda:0")


def test_two_ways_of_saying_how_many() -> None:
    with pytest.raises(UsageError, match=r"--workers 2 --device cuda:0,1: each GPU named has one worker"):
        devices_of(PlanSpec(), "cuda:0,1", 2)
