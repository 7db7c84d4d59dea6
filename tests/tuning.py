"""A device for the tests of tuning: kernels run on the CPU, seconds are made up."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import numpy as np
import pytest

from accel_cli.bench import tile_search
from accel_cli.bench.measure import Timing
from accel_cli.kernels.base import Launch
from accel_cli.kernels.sgemm_tile import DEFAULT, Tile

TALL, FLAT = Tile(64, 32, 16, 4, 4, 3), Tile(32, 64, 16, 4, 4, 3)
DEEP = replace(FLAT, depth=32)
FASTER = {DEFAULT: 3.0, TALL: 2.0, FLAT: 1.0, DEEP: 0.1}


def tile_of(launch: Launch) -> Tile:
    constants = dict(launch.defines)
    return Tile(*(constants[name] for name in ("BM", "BN", "BK", "TM", "TN", "STAGES")))


class Compiler:
    """Nothing is compiled; some tiles cannot be."""

    def __init__(self, *bad: Tile) -> None:
        self.bad = bad

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *failure: object) -> None: ...

    def compiled(self, launches: Iterable[Launch], end: float) -> Iterator[tuple[Launch, str]]:
        for launch in launches:
            if time.monotonic() >= end:
                return
            bad = launch.kernel.name == "sgemm" and tile_of(launch) in self.bad
            yield launch, "kernel sgemm does not compile" if bad else ""


class Device:
    """A launcher that knows which tile came last; `spoil` makes one bit of a tile's result wrong."""

    def __init__(self, spoil: Tile | None = None) -> None:
        self.spoil, self.last, self.timed = spoil, DEFAULT, []
        self._run = fake_cupy.Launcher(None)
        self.loading = self._run.loading

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        self._run(launch, *arguments)
        if launch.kernel.name == "sgemm":
            self.last = tile_of(launch)
            if self.last == self.spoil:
                fake_cupy.Stream.current().enqueue(lambda: spoilt(arguments[7]))

    def times(self, calls: Sequence[Callable[[], None]], repeats: int, hopeless: float = math.inf) -> Timing:
        calls[0]()
        self.timed.append(self.last)
        return Timing((FASTER[self.last],) * repeats)


def spoilt(y: Any) -> None:
    y.reshape(-1).view(np.uint32)[-1] += 1


def fake_gpu(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """A GPU that is none, an empty cache, and four tiles to choose from."""
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(cache))
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    fake_streams.fake_driver(monkeypatch)
    monkeypatch.setattr(tile_search, "candidates", lambda capability: [DEFAULT, TALL, FLAT, DEEP])
