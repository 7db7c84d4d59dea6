"""Cutting an input into spans: what shards are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accel_cli.text.readers import Source
from accel_cli.text.span import Span

_BLOCK = 64 << 10  # bytes read at a time in search of a line's end


def spans(source: Source, size: int) -> list[Span | None]:
    """Consecutive spans of about `size` bytes each that hold every record once, in order.

    Cuts lie at the ends of lines, found by reading a little near each; row groups stay whole. None
    stands for an input that is read as a whole: packed files, csv and tsv, arrays, pipes.
    """
    if source.kind == "parquet":
        return list(_gathered(source.row_groups(), size))
    total = source.divisible
    if not total:  # what says that it is empty may still hold something
        return [None]
    with source.ranges() as read:
        return list(_cut_at_lines(read, total, size))


def _cut_at_lines(read: Callable[[int, int], bytes], total: int, size: int) -> Iterator[Span]:
    start = 0
    while total - start > size:
        stop = _next_line(read, start + size, total)
        yield Span(start, stop)
        start = stop
    if start < total:
        yield Span(start, total)


def _next_line(read: Callable[[int, int], bytes], near: int, total: int) -> int:
    """Where the first line begins at or after `near`; `total` if none does."""
    start = near - 1  # a newline just before `near` ends a line there
    while start < total and (block := read(start, min(start + _BLOCK, total))):
        newline = block.find(b"\n")
        if newline >= 0:
            return start + newline + 1
        start += len(block)
    return total


def _gathered(sizes: list[int], size: int) -> Iterator[Span]:
    """Row groups of the given sizes in bytes, as many together as stay within `size`; at least one."""
    start, held = 0, 0
    for number, more in enumerate(sizes):
        if number > start and held + more > size:
            yield Span(start, number)
            start, held = number, 0
        held += more
    yield Span(start, len(sizes))
