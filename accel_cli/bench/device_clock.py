"""Seconds on the device of one call among many, by events around a run of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from accel_cli.bench.measure import Timing
from accel_cli.cuda.device import cupy
from accel_cli.cuda.stopwatch import head_start

_RUN = 1e-3  # seconds that a run of calls takes at least, against the clock's half a microsecond
_MOST = 50  # calls of a run: they are enqueued within the head start


def device_times(calls: Sequence[Callable[[], None]], repeats: int) -> Timing:
    """The seconds of one call, `repeats` times, after a run that warms up.

    Each run makes its calls in turn, so that calls with operands of their own find none in a cache.
    """
    endless = itertools.cycle(calls)
    once = _run(endless, 1)
    count = 1 if once >= _RUN else min(_MOST, int(_RUN / max(once, 1e-6)) + 1)
    _run(endless, count)
    return Timing(tuple(_run(endless, count) for _ in range(repeats)))


def _run(calls: Any, count: int) -> float:
    """Seconds of each of `count` calls on the current stream, none of which waits for its launch."""
    begin, end = cupy().cuda.Event(), cupy().cuda.Event()
    head_start()
    begin.record()
    for call in itertools.islice(calls, count):
        call()
    end.record()
    end.synchronize()
    return float(cupy().cuda.get_elapsed_time(begin, end)) / 1e3 / count
