"""Seconds on the device of one call among many, by events around a run of them."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from accel_cli.bench.measure import Timing
from accel_cli.cuda import driver
from accel_cli.cuda.device import cupy
from accel_cli.cuda.errors import DeviceLost
from accel_cli.cuda.stopwatch import head_start

_RUN = 1e-3  # seconds that a run of calls takes at least, against the clock's half a microsecond
_MOST = 50  # calls of a run
_AHEAD = 0.002, 0.1  # seconds of a head start, at least and at most
_PATIENCE = 60.0  # seconds after which a device that is still busy will not come back


def device_times(calls: Sequence[Callable[[], None]], repeats: int, hopeless: float = math.inf) -> Timing:
    """The seconds of one call, `repeats` times, after a run that warms up; that one alone if over `hopeless`.

    Each run makes its calls in turn, so that calls with operands of their own find none in a cache.
    """
    return times_in_turns([calls], repeats, hopeless)[0]


def times_in_turns(
    programs: Sequence[Sequence[Callable[[], None]]], repeats: int, hopeless: float = math.inf
) -> list[Timing]:
    """The same of each program's calls, which take turns with the others', all on a device that is warm.

    One after the other they would not be alike: a device that had nothing to do is slower for some
    milliseconds, so that the one that comes first, or whose kernel is loaded first, loses some per cent. And
    what a program finds depends on who came before it, so each round has another order, drawn once for all.
    """
    clocks = [_Clock(calls) for calls in programs]
    warm = [clock.settle() for clock in clocks]
    times: list[list[float]] = [[seconds] if seconds > hopeless else [] for seconds in warm]
    timed = [pair for pair in zip(clocks, times, strict=True) if not pair[1]]
    order = random.Random(0)
    for _ in range(repeats):
        for clock, seconds in order.sample(timed, len(timed)):
            seconds.append(clock.again())
    return [Timing(tuple(seconds)) for seconds in times]


class _Clock:
    """Calls in turn, enqueued within a head start of twice the time that it took before."""

    def __init__(self, calls: Sequence[Callable[[], None]]) -> None:
        self._calls: Iterator[Callable[[], None]] = itertools.cycle(calls)
        self._each = 0.0  # seconds that the host took for a call
        self._count = 1

    def settle(self) -> float:
        """Find out how many calls make a run, and warm up; the seconds of a call."""
        warm = self.again()
        self._count = 1 if warm >= _RUN else min(_MOST, int(_RUN / max(warm, 1e-6)) + 1)
        return self.again() if self._count > 1 else warm

    def again(self) -> float:
        """Seconds of each call of a run on the current stream, none of which waits for its launch."""
        least, most = _AHEAD
        begin, end = cupy().cuda.Event(), cupy().cuda.Event()
        head_start(min(most, max(least, 2 * self._count * self._each)))
        begin.record()
        started = time.perf_counter()
        for call in itertools.islice(self._calls, self._count):
            call()
        self._each = (time.perf_counter() - started) / self._count
        end.record()
        wait(end)
        return float(cupy().cuda.get_elapsed_time(begin, end)) / 1e3 / self._count


def wait(event: Any) -> None:
    """Until the device has come to an event. Unlike in CuPy's own waiting, signals are answered meanwhile.

    DeviceLost if that takes a minute: no kernel here is so slow.
    """
    end = time.monotonic() + _PATIENCE
    while not driver.reached(event):
        if time.monotonic() >= end:
            raise DeviceLost(f"the device has been busy with one kernel for {_PATIENCE:.0f} seconds")
        time.sleep(1e-4)
    event.synchronize()  # which raises whatever went wrong


def finish() -> None:
    """Wait for all that is enqueued on the current stream."""
    event = cupy().cuda.Event(disable_timing=True)
    event.record()
    wait(event)
