"""Seconds on the device of every launch and copy, by events around each, and the layer of each launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from accel_cli.cuda import driver
from accel_cli.cuda.device import cupy
from accel_cli.cuda.ranges import named
from accel_cli.kernels.base import Launch, Runner

Constants = tuple[tuple[str, int], ...]
_HEAD_START = 0.002  # seconds; the kernels of a batch are enqueued in less


@dataclass(frozen=True)
class Span:
    """One launch of a kernel with its constants, or one piece of work `around` a name, which has none.

    `layer` is the one that a launch belongs to, if anybody said so.
    """

    name: str
    constants: Constants
    seconds: float
    layer: str = ""


@dataclass
class _Mark:
    """A span whose events the device has not come to yet."""

    name: str
    constants: Constants
    begin: Any
    end: Any
    layer: str = ""

    def span(self) -> Span:
        seconds = cupy().cuda.get_elapsed_time(self.begin, self.end) / 1e3
        return Span(self.name, self.constants, seconds, self.layer)


class Stopwatch:
    """A runner that hands launches on to another one, and in `measuring` times each of them."""

    def __init__(self, run: Runner) -> None:
        self._run = run
        self._marks: list[_Mark] | None = None
        self._layer = 0  # where the layer begins among the marks

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Enqueue one launch."""
        if self._marks is None:
            self._run(launch, *arguments)
            return
        with self._between_events(self._marks, launch.kernel.name, launch.defines):
            self._run(launch, *arguments)

    @contextmanager
    def measuring(self) -> Iterator[list[Span]]:
        """The spans of all that is enqueued in here, filled in at the end, when the device must be done."""
        spans: list[Span] = []
        marks: list[_Mark] = []
        self._marks, self._layer = marks, 0
        try:
            yield spans
        finally:
            self._marks = None
        spans += [mark.span() for mark in marks]

    def observe(self, layer: str, _: Any) -> None:
        """Say that the launches since the last layer, or since the last `around`, are those of a layer."""
        assert self._marks is not None, "only while measuring"
        for mark in self._marks[self._layer :]:
            mark.layer = layer
        self._layer = len(self._marks)

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        """Time all that is enqueued in here, on the current stream, as one span; no launch of it by itself.

        Unless measuring it is a range for profilers, and nothing else.
        """
        marks = self._marks
        if marks is None:
            with named(name):
                yield
            return
        head_start()
        self._marks = None
        try:
            with self._between_events(marks, name, ()):
                yield
        finally:
            self._marks, self._layer = marks, len(marks)
        head_start()  # for the kernels that follow: the host may have been busy with the copies

    @contextmanager
    def _between_events(self, marks: list[_Mark], name: str, constants: Constants) -> Iterator[None]:
        begin, end = cupy().cuda.Event(), cupy().cuda.Event()
        begin.record()
        yield
        end.record()
        marks.append(_Mark(name, constants, begin, end))


def head_start(seconds: float | None = None) -> None:
    """Hold the current stream up, so that what is enqueued meanwhile waits for no launch between events."""
    driver.hold(cupy().cuda.get_current_stream(), _HEAD_START if seconds is None else seconds)
