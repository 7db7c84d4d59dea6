"""The progress bar: on stderr, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from accel_cli.pipeline import Summary
from accel_cli.text.readers import Source


class Progress:
    """Shows the share of the bytes read, the rate and the time left."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._bar: Any = None
        self._task: Any = None
        if sys.stderr.isatty():
            self._open()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.stop()

    def update(self, source: Source, summary: Summary) -> None:
        """Called after each chunk."""
        if self._bar is not None:
            done = sum(source.done for source in self._sources)
            self._bar.update(self._task, completed=done, sentences=summary.sentences)

    def stop(self) -> None:
        """Take the bar off the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        sizes = [source.size for source in self._sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bar = Bar(
            TextColumn("{task.fields[sentences]} sentences"),
            BarColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=total, sentences=0)
