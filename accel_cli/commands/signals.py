"""Signals while rows are written: what is written is whole, even when Ctrl-C comes in the middle."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interruptions:
    """Turns SIGINT, SIGTERM and SIGHUP into exceptions, but not inside `held`, unless they come twice."""

    def __init__(self) -> None:
        self._holding = False
        self._waiting: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruptions:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `&` does with Ctrl-C, and nohup
                self._before[number] = signal.signal(number, self._arrived)
        return self

    def __exit__(self, *failure: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what is inside finish before a signal takes effect."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._waiting is not None:
            self._raise(self._waiting)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._holding and self._waiting is None:
            self._waiting = number
        else:
            self._raise(number)

    @staticmethod
    def _raise(number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)
