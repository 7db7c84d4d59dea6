"""Copies between host and device, with page-locked ("pinned") host memory and with ordinary ("pageable")."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.bench.lab.report import Column, LabReport, Row, times
from accel_cli.bench.lab.setting import Setting
from accel_cli.bench.measure import Timing, in_turns, short, timed
from accel_cli.cuda.buffers import page_locked, zero
from accel_cli.cuda.device import cupy
from accel_cli.errors import AccelError

SIZES = tuple(4096 << 2 * step for step in range(9))  # 4 KiB to 256 MiB
TO_DEVICE, TO_HOST = "host to device", "device to host"
PAGEABLE, PINNED = "pageable", "pinned"
COLUMNS = (
    Column("direction", "direction"),
    Column("memory", "memory"),
    Column("bytes", "bytes", ",d"),
    Column("us", "us", ",.1f"),
    Column("us_min", "fastest", ",.1f"),
    Column("us_max", "slowest", ",.1f"),
    Column("gb_per_s", "GB/s", ",.2f"),
    Column("x_pageable", "x pageable", ".2f"),
)
_CLOCK = (
    "one copy on the host's clock, from the call until the data is there; each is waited for before the next"
    " one, and they walk through one large buffer"
)
_RUN = 2e-3  # seconds that a run of copies takes at least
_MOST = 50  # copies of a run
_PLACES = 1024  # that copies walk through, at most
_PERIOD = 1048583  # a prime: no two parts of the buffer hold the same

Bytes = npt.NDArray[np.uint8]


class _Copies:
    """Copies of `size` bytes in one direction, between the device and host memory of one kind.

    Both hold the same bytes all the time.
    """

    def __init__(self, direction: str, host: Bytes, device: Any, size: int) -> None:
        self._direction, self._host, self._device, self._size = direction, host, device, size
        self._stream = cupy().cuda.get_current_stream()
        # found before the clock runs: slices take microseconds, and so does a small copy
        offsets = range(0, len(host) - size + 1, size)[:_PLACES]
        self._places = itertools.cycle([self._place(offset) for offset in offsets])
        self.count = 1  # of a run

    def check(self, what: str, expected: Bytes) -> None:
        """AccelError unless the source's first bytes, those of `expected`, arrive in a target of zeros."""
        host, device = self._host[: self._size], self._device[: self._size]
        if self._direction == TO_DEVICE:
            zero(device)
        else:
            host[:] = 0
        self.run()
        found = cupy().asnumpy(device) if self._direction == TO_DEVICE else host
        if not np.array_equal(found, expected[: self._size]):
            raise AccelError(f"not timed, because {what} of {self._size} bytes brings others")

    def warm_up(self) -> None:
        """Find how many copies make a run."""
        self.run()
        seconds, _ = timed(self.run)
        self.count = max(1, min(_MOST, int(_RUN / seconds)))
        self.run()

    def run(self) -> None:
        """Copy, and wait, `count` times."""
        for enqueue, host in itertools.islice(self._places, self.count):
            enqueue(host, self._size, self._stream)
            self._stream.synchronize()

    def _place(self, offset: int) -> tuple[Callable[[int, int, Any], None], int]:
        """What copies from or to a place on the device, and its counterpart's address on the host."""
        part = self._device[offset : offset + self._size].data
        enqueue = part.copy_from_host_async if self._direction == TO_DEVICE else part.copy_to_host_async
        return enqueue, self._host.ctypes.data + offset


def measure(setting: Setting) -> LabReport:
    """Check, then time copies of all SIZES in both directions."""
    largest = max(SIZES)
    expected = np.resize(np.random.default_rng(0).integers(0, 256, _PERIOD, np.uint8), largest)
    hosts = {PAGEABLE: expected.copy(), PINNED: page_locked((largest,), "uint8")}
    hosts[PINNED][:] = expected
    device = cupy().asarray(expected)
    rows: list[Row] = []
    for size, direction in itertools.product(SIZES, (TO_DEVICE, TO_HOST)):
        setting.tell(f"{size} bytes, {direction}")
        copies = {}
        for memory, host in hosts.items():
            copies[memory] = _Copies(direction, host, device, size)
            copies[memory].check(f"a copy from {direction}, {memory},", expected)
            copies[memory].warm_up()
        found = in_turns({name: partial(each.run) for name, each in copies.items()}, setting.repeats)
        rows += _rows(size, direction, {name: _each(found[name], copies[name].count) for name in found})
    return LabReport("memory", setting.device, setting.gpu, _CLOCK, {}, rows, COLUMNS)


def _each(timing: Timing, count: int) -> Timing:
    return Timing(tuple(seconds / count for seconds in timing.seconds))


def _rows(size: int, direction: str, timings: dict[str, Timing]) -> list[Row]:
    return [
        {
            "bytes": size,
            "direction": direction,
            "memory": memory,
            **times(timing),
            "gb_per_s": short(size / timing.median / 1e9),
            "x_pageable": short(timings[PAGEABLE].median / timing.median),
        }
        for memory, timing in timings.items()
    ]
