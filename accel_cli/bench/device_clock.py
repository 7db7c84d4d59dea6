"""Seconds on the device of one call among many, by events around a run of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from accel_cli.bench.measure import Timing
from accel_cli.cuda.device import cupy

_RUN = 1e-3  # seconds that a run of calls takes at least, against the clock's half a microsecond
_MOST = 50  # calls of a run: what is enqueued while the device waits
_HEAD_START = 2e-3  # seconds; that many calls are enqueued in less


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
    stream = cupy().cuda.get_current_stream()
    begin, end = cupy().cuda.Event(), cupy().cuda.Event()
    stream.launch_host_func(time.sleep, _HEAD_START)
    begin.record()
    for call in itertools.islice(calls, count):
        call()
    end.record()
    end.synchronize()
    return float(cupy().cuda.get_elapsed_time(begin, end)) / 1e3 / count
