"""The progress bar: on stderr, and only on a terminal that the rows do not go to."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import IO, Any, Protocol

from accel_cli.pipeline import Summary


class Counted(Protocol):
    """What is read: `done` of `size` bytes, if those are known."""

    @property
    def size(self) -> int | None:
        """All bytes."""
        ...

    @property
    def done(self) -> int:
        """The bytes read so far."""
        ...


class Progress:
    """Shows the share of the bytes read, the rate and the time left."""

    def __init__(self, sources: Sequence[Counted], output: IO[Any]) -> None:
        self._sources = sources
        self._begin = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None
        if sys.stderr is not None and sys.stderr.isatty() and not output.isatty():
            self._open()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def update(self, summary: Summary) -> None:
        """Called after each batch."""
        if self._bar is not None:
            done = sum(source.done for source in self._sources)
            rate = summary.sentences / (time.perf_counter() - self._begin)
            self._bar.update(self._task, completed=done, sentences=summary.sentences, rate=rate)

    def stop(self) -> None:
        """Take the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        sizes = [source.size for source in self._sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bar = Bar(
            TextColumn("{task.fields[sentences]} sentences, {task.fields[rate]:.0f}/s"),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=total, sentences=0, rate=0.0)
