"""Seconds on the device of every launch and copy, by events around each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from accel_cli.cuda import driver
from accel_cli.cuda.device import cupy
from accel_cli.kernels.base import Launch, Runner

Constants = tuple[tuple[str, int], ...]
_HEAD_START = 0.002  # seconds; the kernels of a batch are enqueued in less


@dataclass(frozen=True)
class Span:
    """One launch of a kernel with its constants, or one group of copies, which has none."""

    name: str
    constants: Constants
    seconds: float


class Stopwatch:
    """A runner that hands launches on to another one, and in `measuring` times each of them."""

    def __init__(self, run: Runner) -> None:
        self._run = run
        self._marks: list[tuple[str, Constants, Any, Any]] | None = None

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Enqueue one launch."""
        if self._marks is None:
            self._run(launch, *arguments)
            return
        with self._between_events(launch.kernel.name, launch.defines):
            self._run(launch, *arguments)

    @contextmanager
    def measuring(self) -> Iterator[list[Span]]:
        """The spans of all that is enqueued in here, filled in at the end, when the device must be done."""
        spans: list[Span] = []
        marks: list[tuple[str, Constants, Any, Any]] = []
        self._marks = marks
        try:
            yield spans
        finally:
            self._marks = None
        elapsed = cupy().cuda.get_elapsed_time
        spans += [Span(name, constants, elapsed(begin, end) / 1e3) for name, constants, begin, end in marks]

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Time what is enqueued in here, on the current stream, as one span without constants."""
        head_start()
        with self._between_events(name, ()):
            yield
        head_start()  # for the kernels that follow: the host may have been busy with the copies

    @contextmanager
    def _between_events(self, name: str, constants: Constants) -> Iterator[None]:
        assert self._marks is not None, "only while measuring"
        begin, end = cupy().cuda.Event(), cupy().cuda.Event()
        begin.record()
        yield
        end.record()
        self._marks.append((name, constants, begin, end))


def head_start(seconds: float | None = None) -> None:
    """Hold the current stream up, so that what is enqueued meanwhile waits for no launch between events."""
    driver.hold(cupy().cuda.get_current_stream(), _HEAD_START if seconds is None else seconds)
