"""What is asked of CUDA's driver itself, without one."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from accel_cli.cuda import driver
from accel_cli.errors import DeviceError

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
