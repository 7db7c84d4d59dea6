"""Structured logs on stderr, a line an event, written by a thread: whoever reads them cannot hold us up."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from json.encoder import encode_basestring_ascii
from typing import Any

FORMATS = ("text", "json")
_MOST_WAITING = 10_000  # lines
_PAUSE = 0.1  # seconds
_SPELLED: dict[type, Callable[[Any], str]] = {str: encode_basestring_ascii, int: repr, float: repr}  # as JSON
_SIMPLE = re.compile(r"[!#-<>-~]+").fullmatch


class Log:
    """Lines for people (`text`) or machines (`json`). `texts` says whether requests' texts may be in them.

    When whoever reads stderr does not keep up, lines are dropped and counted.
    """

    def __init__(self, layout: str = "text", *, texts: bool = False) -> None:
        self.texts = texts
        self._json = layout == "json"
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._second, self._spelled = -1.0, ""
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write, name="accel-log", daemon=True)
        self._thread.start()

    def event(self, level: str, event: str, **values: Any) -> None:
        """One thing that happened."""
        if len(self._lines) < _MOST_WAITING:
            self._lines.append(self._line(level, event, values))
        else:
            self._dropped += 1

    def close(self) -> None:
        """Write what waits, if it can be written soon."""
        self._ending.set()
        self._thread.join(1.0)

    def _line(self, level: str, event: str, values: dict[str, Any]) -> str:
        now = self._clock()
        if self._json:
            spelled = [
                f', "{key}": {_SPELLED.get(type(value), json.dumps)(value)}' for key, value in values.items()
            ]
            return f'{{"time": "{now}", "level": "{level}", "event": "{event}"{"".join(spelled)}}}\n'
        pairs = "".join([f" {key}={_plain(value)}" for key, value in values.items()])
        return f"{now} {level} {event}{pairs}\n"

    def _clock(self) -> str:
        """The time of day; its seconds are spelled out only once."""
        second, part = divmod(time.time(), 1)
        if second != self._second:
            self._second, self._spelled = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._spelled}.{int(part * 1000):03}Z"

    def _write(self) -> None:
        ended, told = False, 0
        while not ended:
            ended = self._ending.wait(_PAUSE)
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if dropped := self._dropped - told:
                told += dropped
                lines.append(self._line("warning", "log_lines_dropped", {"count": dropped}))
            if lines:
                _put("".join(lines).encode("utf-8", "backslashreplace"))


def _put(data: bytes) -> None:
    """All of it on stderr, if it can be written there: the work goes on without."""
    with suppress(OSError, ValueError, AttributeError):
        number = sys.stderr.fileno()
        while data:
            data = data[os.write(number, data) :]


def _plain(value: Any) -> str:
    """A value in a line for people: quoted where it could be misread."""
    text = str(value)
    if type(value) in (int, float):
        return text
    return text if _SIMPLE(text) else json.dumps(text)


class Forward(logging.Handler):
    """Hands on what a library logs."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One record as an event."""
        values: dict[str, Any] = {"message": record.getMessage()}
        if record.exc_info:
            values["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._log.event(record.levelname.lower(), "server", **values)
