"""Named ranges (NVTX) on a profiler's timeline; without a profiler each costs about a microsecond."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from accel_cli.cuda.device import cupy


def named(name: str) -> AbstractContextManager[None]:
    """What this thread enqueues inside stands under `name` on the timeline; ranges nest."""
    nvtx = cupy().cuda.nvtx
    return _Range(nvtx, name) if nvtx.available else nullcontext()  # a CuPy may be built without it


class _Range:
    """A class, since a generator would cost several times as much as the range."""

    __slots__ = ("_name", "_nvtx")

    def __init__(self, nvtx: Any, name: str) -> None:
        self._nvtx, self._name = nvtx, name

    def __enter__(self) -> None:
        self._nvtx.RangePush(self._name)

    def __exit__(self, *failure: object) -> None:
        self._nvtx.RangePop()
