"""What was fetched piece by piece, as the streams that readers know."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from accel_cli.text.files import Reader


class Joined(io.RawIOBase):
    """Blocks as one stream, which counts what is read."""

    def __init__(self, blocks: Iterator[bytes], count: Callable[[int], None]) -> None:
        self._blocks = blocks
        self._count = count
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """At most `size` bytes of one block; nothing only at the end."""
        self._fill()
        return bytes(self._take(len(self._rest) if size < 0 else size))

    def readinto(self, buffer: Any) -> int:
        """Fill the front of `buffer`."""
        self._fill()
        taken = self._take(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)

    def _fill(self) -> None:
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))

    def _take(self, size: int) -> memoryview:
        taken, self._rest = self._rest[:size], self._rest[size:]
        self._count(len(taken))
        return taken


class Seekable(io.RawIOBase):
    """Ranges of `size` bytes as a file that can be read here and there."""

    def __init__(self, read: Reader, size: int) -> None:
        self._read = read
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, counted as `whence` says."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill the front of `buffer`, all of it before the end of the file."""
        stop = min(self._place + len(buffer), self._size)
        data = self._read(self._place, stop) if stop > self._place else b""
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)
