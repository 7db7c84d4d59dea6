"""What is asked of CUDA's driver itself, without one."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import fake_cupy
import numpy as np
import pytest

from accel_cli.cuda import driver, launcher
from accel_cli.cuda.device import DeviceFacts
from accel_cli.cuda.launcher import Launcher
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import Array, Kernel, Launch, Scalar

THING = SimpleNamespace(ptr=7)  # a stream or an event


def answers(monkeypatch: pytest.MonkeyPatch, call: str, status: int) -> list[tuple[Any, ...]]:
    """Make the driver answer one of its calls; returns what it is then asked."""
    asked: list[tuple[Any, ...]] = []
    calls = {call: lambda *values: asked.append(values) or status}
    monkeypatch.setattr(driver, "_driver", lambda: SimpleNamespace(**calls))
    return asked


def test_a_stream_is_held_up_by_a_function_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of Python would need the interpreter's lock inside the driver."""
    asked = answers(monkeypatch, "cuLaunchHostFunc", 0)
    driver.hold(THING, 0.25)
    [(stream, function, microseconds)] = asked
    assert (stream.value, microseconds.value) == (7, 250_000)
    places = [ctypes.cast(one, ctypes.c_void_p).value for one in (function, ctypes.CDLL(None).usleep)]
    assert places[0] == places[1]
    answers(monkeypatch, "cuLaunchHostFunc", 1)
    with pytest.raises(DeviceError, match=r"does not hold a stream up \(error 1\)"):
        driver.hold(THING, 0.25)


@pytest.mark.parametrize(("status", "reached"), [(0, True), (600, False), (700, True)])
def test_an_event_is_waited_for_until_it_is_reached_or_the_device_fails(
    monkeypatch: pytest.MonkeyPatch, status: int, reached: bool
) -> None:
    asked = answers(monkeypatch, "cuEventQuery", status)
    assert driver.reached(THING) is reached
    assert [event.value for (event,) in asked] == [7]


ARRAY = SimpleNamespace(
    dtype=np.dtype("float32"), flags=SimpleNamespace(c_contiguous=True), data=SimpleNamespace(ptr=1 << 40)
)
PARAMETERS = (
    *(Array("y", "float32", written=True), Scalar("rows", "int64")),
    *(Scalar("columns", "int32"), Scalar("scale", "float32")),
)


def launch_of(*, overlaps: bool) -> Launch:
    return Launch(Kernel("example", PARAMETERS, overlaps=overlaps), (), (3, 2, 1), (64, 1, 1), 1024)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The current stream of a CuPy that has nothing else."""
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(module.cuda, "get_current_stream", lambda: THING)
    return THING


def test_what_an_early_launch_tells_the_driver(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def launched(configuration: Any, function: Any, places: Any, extra: Any) -> int:
        given = configuration._obj
        told.append((list(given.grid), list(given.block), given.shared_bytes, given.stream, given.count))
        told.append((given.attributes[0].id, given.attributes[0].value[0], function.value, extra))
        kinds = (ctypes.c_uint64, ctypes.c_int64, ctypes.c_int32, ctypes.c_float)
        told.append([kind.from_address(place).value for kind, place in zip(kinds, places, strict=True)])
        return 0

    monkeypatch.setattr(driver, "_driver", lambda: SimpleNamespace(cuLaunchKernelEx=launched))
    launch = launch_of(overlaps=True)
    packed = launch.kernel.pack((ARRAY, -(2**40), -5, 0.25))
    driver.launch_overlapping(SimpleNamespace(kernel=SimpleNamespace(ptr=9)), launch, packed)
    assert told == [
        ([3, 2, 1], [64, 1, 1], 1024, stream.ptr, 1),
        (6, 1, 9, None),  # programmatic stream serialization, allowed
        [1 << 40, -(2**40), -5, 0.25],
    ]


def test_an_early_launch_that_the_driver_refuses(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "cuLaunchKernelEx", 701)
    function = SimpleNamespace(kernel=SimpleNamespace(ptr=9))
    with pytest.raises(fake_cupy.CUDADriverError, match="701"):
        driver.launch_overlapping(function, launch_of(overlaps=True), ())


@pytest.mark.parametrize(
    ("capability", "version", "overlaps", "early"),
    [
        ((9, 0), 13000, True, True),
        ((9, 0), 13000, False, False),
        ((8, 0), 13000, True, False),
        ((9, 0), 12020, True, False),
    ],
)
def test_who_is_launched_early(
    capability: tuple[int, int], version: int, overlaps: bool, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that wait by themselves, on devices and drivers that can do it."""
    found: list[str] = []
    monkeypatch.setattr(driver, "launch_overlapping", lambda *_: found.append("early"))
    monkeypatch.setattr(Launcher, "function", lambda *_: lambda *_, **__: found.append("in turn"))
    monkeypatch.setattr(launcher, "KernelCache", lambda *_, **__: None)
    facts = DeviceFacts(0, "a device", capability, 1, 1, 1, version, version)
    Launcher(facts)(launch_of(overlaps=overlaps), ARRAY, 1, 2, 3.0)
    assert found == ["early" if early else "in turn"]
