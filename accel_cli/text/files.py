"""Where the bytes of an input lie: a local file or a pipe, here, and what any such place offers."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO, Protocol, cast

from accel_cli.errors import InputError

Reader = Callable[[int, int], bytes]  # the bytes from a start up to a stop
_TURN = 0.5  # seconds


class File(Protocol):
    """The bytes of one input."""

    place: str  # its name in messages

    def check(self) -> None:
        """InputError if it can be seen to be unreadable."""

    @property
    def size(self) -> int | None:
        """Its bytes, or None if that is not known: a pipe."""

    @property
    def ranged(self) -> bool:
        """Whether any range of it can be read."""

    def fingerprint(self) -> dict[str, int | str]:
        """What changes when its content does; empty for a pipe."""

    def ranges(self) -> AbstractContextManager[Reader]:
        """Any range of a `ranged` file."""

    def stream(self, start: int, stop: int | None, count: Callable[[int], None]) -> Any:
        """A context manager of the bytes in order; `count` is told how many each read gave."""

    def seekable(self) -> AbstractContextManager[BinaryIO]:
        """The file, to be read here and there."""


class LocalFile:
    """A path, or `-` for stdin. Errors of the system are not caught but where they say so."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.place = "stdin" if path == "-" else path

    def check(self) -> None:
        """Refuse what can be seen to be wrong before anything is loaded."""
        if self.path == "-":
            if sys.stdin is None:
                raise InputError("stdin is closed; name a file with --input")
            return
        if os.path.isdir(self.path):
            raise InputError(
                f"{self.path} is a folder; name the files in it, each with an --input of its own"
            )
        try:
            if stat.S_ISREG(os.stat(self.path).st_mode):  # opening a pipe and closing it would end its writer
                open(self.path, "rb").close()
        except OSError as error:
            raise InputError(
                f"cannot read {self.path}: {error.strerror}; check the name and its rights"
            ) from error

    @property
    def size(self) -> int | None:
        """The bytes of a regular file, else None."""
        return os.stat(self.path).st_size if self.path != "-" and os.path.isfile(self.path) else None

    @property
    def ranged(self) -> bool:
        """A regular file is."""
        return self.size is not None

    def fingerprint(self) -> dict[str, int | str]:
        """Size and time of the last change."""
        if self.size is None:
            return {}
        status = os.stat(self.path)
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}

    @contextmanager
    def ranges(self) -> Iterator[Reader]:
        """Reads without a position of its own."""
        with open(self.path, "rb", buffering=0) as file:
            yield lambda start, stop: os.pread(file.fileno(), stop - start, start)

    @contextmanager
    def stream(self, start: int, stop: int | None, count: Callable[[int], None]) -> Iterator[BinaryIO]:
        """The bytes from `start` up to `stop`, or to the end; a pipe has a start of 0."""
        stdin = self.path == "-"
        with open(0 if stdin else self.path, "rb", buffering=0, closefd=not stdin) as raw:
            if start:
                raw.seek(start)
            yield cast("BinaryIO", Watched(raw, count, None if stop is None else stop - start))

    @contextmanager
    def seekable(self) -> Iterator[BinaryIO]:
        """The file as it is."""
        with open(self.path, "rb") as file:
            yield file


class Watched(io.RawIOBase):
    """A binary stream that gives what is there, as read1 does, at most `left` bytes, and counts it.

    InputError where a file ends before those, or before where it ended at first. It may have grown.
    """

    def __init__(self, raw: io.FileIO, count: Callable[[int], None], left: int | None = None) -> None:
        self._raw = raw
        self._count = count
        self._left = left
        status = os.fstat(raw.fileno())
        self._end = status.st_size if stat.S_ISREG(status.st_mode) else 0

    def readable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor read from."""
        return self._raw.fileno()

    def read1(self, size: int = -1) -> bytes:
        """At most `size` bytes, by one read of the system; nothing only at the end."""
        size = self._bounded(size)
        if size == 0:
            return b""
        self._wait()
        while (block := self._raw.read(size)) is None:  # non-blocking, and no byte is there
            self._wait()
        self._account(len(block))
        return block

    def readinto(self, buffer: Any) -> int:
        """Fill the front of `buffer`, by one read of the system."""
        front = memoryview(buffer)[: self._bounded(len(buffer))]
        if not front:
            return 0
        self._wait()
        while (read := self._raw.readinto(front)) is None:
            self._wait()
        self._account(read)
        return read

    def _bounded(self, size: int) -> int:
        if self._left is None:
            return size
        return self._left if size < 0 else min(size, self._left)

    def _account(self, read: int) -> None:
        if read == 0 and (missing := self._missing()) > 0:
            name = "stdin" if self._raw.name == 0 else self._raw.name
            raise InputError(
                f"{name} ends {missing} bytes too early: it was cut while it was read; run again"
            )
        if self._left is not None:
            self._left -= read
        self._count(read)

    def _missing(self) -> int:
        if self._left is not None:
            return self._left
        return self._end - self._raw.tell() if self._end else 0

    def _wait(self) -> None:
        """Until something can be read; in turns, as a signal just before a blocking call does not end it."""
        while not select.select([self._raw], [], [], _TURN)[0]:
            pass
