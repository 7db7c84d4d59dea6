"""Side streams: work that does not depend on each other runs side by side, in streams and in graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from accel_cli.cuda.device import cupy


class Branches:
    """Streams beside the current one. Without any (`count` 0) everything runs in turn."""

    def __init__(self, count: int) -> None:
        self._streams = [cupy().cuda.Stream(non_blocking=True) for _ in range(count)]
        self._fork = cupy().cuda.Event(disable_timing=True)
        self._joins = [cupy().cuda.Event(disable_timing=True) for _ in range(count)]

    @property
    def several(self) -> bool:
        """Whether branches run beside each other."""
        return len(self._streams) > 1

    @contextmanager
    def side_by_side(self) -> Iterator[None]:
        """What `branch` encloses in here starts after all that came before, and ends before what follows."""
        main = cupy().cuda.get_current_stream()
        self._fork.record(main)
        try:
            yield
        finally:
            for event in self._joins:
                main.wait_event(event)

    @contextmanager
    def branch(self, number: int) -> Iterator[None]:
        """Enqueue on a side stream; branches of the same number follow each other."""
        if not self._streams:
            yield
            return
        place = number % len(self._streams)
        stream = self._streams[place]
        stream.wait_event(self._fork)
        try:
            with stream:
                yield
        finally:
            self._joins[place].record(stream)
