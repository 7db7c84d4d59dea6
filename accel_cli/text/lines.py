"""Cutting a byte stream into lines, with bounded memory whatever stands in it.

Only a newline ends a line, and one carriage return before it belongs to it. U+0085, U+2028, form
feeds and NUL bytes are text. A missing newline at the end of the file changes nothing.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import BinaryIO

from accel_cli.errors import InputError

BLOCK = 1 << 20  # bytes read at a time
LINE_LIMIT = 1 << 20  # bytes kept of a line of text
CHUNK_BYTES = 32 << 20  # bytes of lines that are gathered at most
_PAUSE = 0.001  # seconds after which a pipe without bytes counts as idle
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # how UTF-8 and UTF-16 files may begin


def line_chunks(
    stream: BinaryIO, rows: int, place: str, limit: int = LINE_LIMIT, *, within: bool = False
) -> Iterator[list[bytes]]:
    """The lines in lists of at most `rows`; `limit` bytes are kept of each. Lists are not empty.

    A stream that begins `within` a file has no byte order mark: the same bytes are text there.

    A pipe whose writer pauses gives what it has so far, so that answers do not wait for a full list.
    """
    waiting: list[bytes] = []
    size = 0
    for lines in _lines(stream, place, limit, within):
        waiting += lines
        size += sum(map(len, lines))
        at_once = size >= CHUNK_BYTES or idle(stream)
        if at_once or len(waiting) >= rows:
            ready = len(waiting) if at_once else len(waiting) - len(waiting) % rows
            yield from _lists(waiting[:ready], rows)
            del waiting[:ready]
            size = sum(map(len, waiting))
    yield from _lists(waiting, rows)


def _lists(lines: list[bytes], rows: int) -> Iterator[list[bytes]]:
    for start in range(0, len(lines), rows):
        yield lines[start : start + rows]


def _lines(stream: BinaryIO, place: str, limit: int, within: bool) -> Iterator[list[bytes]]:
    """The lines that each read completes."""
    enough = limit + 2  # bytes that decide what is kept of a line: also its carriage return, if it just fits
    rest = bytearray()
    for number, block in enumerate(pieces(stream)):
        if number == 0 and not within:
            block = without_mark(block, place)
        first, newline, others = block.partition(b"\n")
        rest += first[: max(0, enough - len(rest))]
        if not newline:
            continue
        lines = others.split(b"\n")
        lines.insert(0, bytes(rest))
        rest = bytearray(lines.pop()[:enough])
        yield [whole(line, limit) for line in lines]
    if rest:
        yield [whole(bytes(rest), limit)]


def pieces(stream: BinaryIO) -> Iterator[bytes]:
    """What the stream holds, in pieces; the first one has all of a byte order mark, if there is one."""
    read = getattr(stream, "read1", stream.read)
    block = read(BLOCK)
    while 0 < len(block) < 3 and any(mark.startswith(block) for mark in _MARKS) and (more := read(BLOCK)):
        block += more
    while block:
        yield block
        block = read(BLOCK)


def whole(line: bytes, limit: int) -> bytes:
    """What is kept of a line, which may end in the carriage return of its newline."""
    return cut(line[:-1] if line.endswith(b"\r") else line, limit)


def cut(line: bytes, limit: int) -> bytes:
    """The first `limit` bytes, less a UTF-8 sequence that the cut would break."""
    if len(line) <= limit:
        return line
    kept = line[:limit]
    tail = kept[-3:]
    for back in range(1, len(tail) + 1):
        byte = tail[-back]
        if byte >= 0xC0:  # a lead byte: keep it only with all that it announces
            announced = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return kept if announced <= back else kept[:-back]
        if byte < 0x80:
            break
    return kept


def without_mark(block: bytes, place: str) -> bytes:
    """The first block without a UTF-8 byte order mark; UTF-16 is refused."""
    if block.startswith(b"\xef\xbb\xbf"):
        return block[3:]
    sample = block[:1024]
    pairs = len(sample) // 2
    fewer, more = sorted((sample[0::2].count(0), sample[1::2].count(0)))
    # every other byte of western text is NUL, and only every other: a line of NUL bytes is text
    halves = pairs >= 4 and more * 10 >= pairs * 9 and fewer * 2 <= pairs
    if block.startswith((b"\xff\xfe", b"\xfe\xff")) or halves:
        raise InputError(f"{place} is UTF-16; accel reads UTF-8: convert it with `iconv -f UTF-16 -t UTF-8`")
    return block


def idle(stream: BinaryIO) -> bool:
    """Whether reading on would wait for whoever writes into a pipe."""
    try:
        ready, _, _ = select.select([stream.fileno()], [], [], _PAUSE)
    except (OSError, ValueError, AttributeError):
        return False
    return not ready
