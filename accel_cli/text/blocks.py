"""Cutting an input into blocks of whole lines, straight in memory that is given: no Python for each line.

The lines of the blocks are those of `text.lines`. A file's blocks are ranges, cut at newlines found by
reading a little near each border, so that several threads fill theirs at once; a stream is read in turn,
and the unfinished line at the end of a block is carried to the next.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from accel_cli.errors import InputError
from accel_cli.text.files import Reader
from accel_cli.text.lines import LINE_LIMIT, idle, pieces, whole, without_mark

MARGIN = 2  # bytes beyond the limit of a line that decide what is kept of it
_NEAR = 4 << 10  # bytes looked at first in search of a newline
_READ = 1 << 20  # bytes read from a stream at a time
_PATIENCE = 0.1  # seconds after which what a stream has given goes on its way


class Block(Protocol):
    """Whole lines, the last one perhaps without its newline."""

    @property
    def short(self) -> bool:
        """Whether the input pauses after it: whoever feeds it may wait for the answer."""
        ...

    def fill(self, memory: memoryview) -> int:
        """Put the lines to the front of the memory it was cut for; their bytes. InputError."""
        ...


class Blocks(Protocol):
    """An input in blocks."""

    def next(self, memory: memoryview) -> Block | None:
        """The next block for a memory, of the same size every time, or None at the end. InputError."""
        ...


class FileBlocks:
    """Bytes `start` to `stop` - 1 of a file; its blocks may be filled by several threads in any order.

    `count` is told how many bytes each block takes.
    """

    def __init__(
        self,
        descriptor: int,
        start: int,
        stop: int,
        place: str,
        limit: int = LINE_LIMIT,
        count: Callable[[int], None] = lambda read: None,
    ) -> None:
        self._descriptor, self._stop, self._place, self._limit = descriptor, stop, place, limit
        self._count = count
        self._at = start
        if start == 0:
            front = self._read(0, min(_NEAR, stop))
            self._at = len(front) - len(without_mark(front, place))
            count(self._at)

    def next(self, memory: memoryview) -> Block | None:
        """The next range; what is read here is a little before its end."""
        start, size = self._at, _room(memory, self._limit)
        if start >= self._stop:
            return None
        stop = self._stop
        if stop - start > size:
            end = _last_newline(self._read, start, start + size)
            if end is None:  # a line longer than the memory: its front is all that is read of it
                end = _first_newline(self._read, start + size, stop)
            stop = stop if end is None else end + 1
        self._at = stop
        self._count(stop - start)
        return _FileBlock(self._descriptor, start, stop, self._place, self._limit)

    def _read(self, start: int, stop: int) -> bytes:
        return os.pread(self._descriptor, stop - start, start)


@dataclass(frozen=True)
class _FileBlock:
    descriptor: int
    start: int
    stop: int
    place: str
    limit: int
    short: bool = False

    def fill(self, memory: memoryview) -> int:
        size, done = min(len(memory), self.stop - self.start), 0
        while done < size:
            count = os.preadv(self.descriptor, [memory[done:size]], self.start + done)
            if not count:
                raise InputError(
                    f"{self.place} ends {self.stop - self.start - done} bytes too early: it was cut while it"
                    " was read; run again"
                )
            done += count
        return shortened(memory, size, self.limit)


class StreamBlocks:
    """A stream, from its start or from `within` a file, which has no byte order mark there."""

    def __init__(
        self, stream: BinaryIO, place: str, limit: int = LINE_LIMIT, *, within: bool = False
    ) -> None:
        self._stream, self._limit, self._ended = stream, limit, False
        readable: Any = stream
        self._readinto = getattr(readable, "readinto1", None) or readable.readinto
        first = b"" if within else next(pieces(stream), b"")
        self._rest = without_mark(first, place)

    def next(self, memory: memoryview) -> Block | None:
        """Read until the memory is full, the stream pauses or some time has passed."""
        room, size, lines, begin = _room(memory, self._limit), 0, False, time.monotonic()
        reader = _reader(memory)
        if self._ended:
            return None
        while size < room:
            count = self._more(memory[size:room])
            if not count:
                self._ended = True
                return _StreamBlock(size, self._limit, short=True) if size else None
            lines = lines or _last_newline(reader, size, size + count) is not None
            size += count
            if lines and (time.monotonic() - begin > _PATIENCE or (not self._rest and idle(self._stream))):
                break
        end = _last_newline(reader, 0, size) if lines else None
        if end is None:
            self._skip_line(memory[self._limit + MARGIN : room])
            return _StreamBlock(self._limit + MARGIN, self._limit, short=False)
        self._rest = bytes(memory[end + 1 : size]) + self._rest
        return _StreamBlock(end + 1, self._limit, short=size < room)

    def _more(self, memory: memoryview) -> int:
        """Bytes at the front of some memory: those left over first, then what one read gives."""
        if not self._rest:
            return int(self._readinto(memory[:_READ]))
        count = min(len(self._rest), len(memory))
        memory[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def _skip_line(self, memory: memoryview) -> None:
        """Leave out the rest of a line, which `memory` is read over with."""
        while count := self._more(memory):
            end = _first_newline(_reader(memory), 0, count)
            if end is not None:
                self._rest = bytes(memory[end + 1 : count]) + self._rest
                return


@dataclass(frozen=True)
class _StreamBlock:
    size: int
    limit: int
    short: bool

    def fill(self, memory: memoryview) -> int:
        return shortened(memory, self.size, self.limit)


def shortened(text: memoryview, size: int, limit: int) -> int:
    """Keep `limit` bytes of each line in text[:size], as text.lines does; the bytes that are left."""
    read, write, reader = 0, 0, _reader(text)
    while size - read > limit:
        end = _last_newline(reader, read, read + limit + 1)
        if end is not None:  # so lines up to there are short
            write = _move(text, read, end + 1, write)
            read = end + 1
            continue
        end = _first_newline(reader, read + limit + 1, size)
        stop = size if end is None else end
        kept = whole(reader(read, min(stop, read + limit + MARGIN)), limit)
        kept += b"\r" if kept.endswith(b"\r") else b""  # since one belongs to the end of the line
        kept += b"" if end is None else b"\n"
        text[write : write + len(kept)] = kept
        read, write = stop + 1, write + len(kept)
    return _move(text, read, size, write) if read < size else write


def _move(text: memoryview, start: int, stop: int, to: int) -> int:
    """Move bytes towards the front; where they end then."""
    end = to + stop - start
    if to != start:
        text[to:end] = text[start:stop]
    return end


def _room(memory: memoryview, limit: int) -> int:
    if len(memory) <= limit + MARGIN:
        raise ValueError(f"{len(memory)} bytes of memory for lines of {limit}; take {limit + MARGIN + 1}")
    return len(memory)


def _reader(memory: memoryview) -> Reader:
    return lambda start, stop: bytes(memory[start:stop])


def _last_newline(read: Reader, start: int, stop: int) -> int | None:
    """The place of the last newline from `start` up to `stop`, looked for in ever larger steps."""
    step = _NEAR
    while stop > start:
        begin = max(start, stop - step)
        found = read(begin, stop).rfind(b"\n")
        if found >= 0:
            return begin + found
        stop, step = begin, min(4 * step, _READ)
    return None


def _first_newline(read: Reader, start: int, stop: int) -> int | None:
    """The place of the first newline from `start` up to `stop`."""
    step = _NEAR
    while start < stop:
        found = read(start, min(stop, start + step)).find(b"\n")
        if found >= 0:
            return start + found
        start, step = start + step, min(4 * step, _READ)
    return None
