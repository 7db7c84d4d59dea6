"""CSV and TSV, record by record."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from accel_cli.errors import InputError, UsageError
from accel_cli.text.chunks import TextChunk
from accel_cli.text.lines import CHUNK_BYTES, LINE_LIMIT, cut, idle, line_chunks

LIMIT = 64 << 20  # bytes of a record


class Record(NamedTuple):
    """A record, the number of its first line, and whether the input pauses behind it."""

    line: int
    fields: list[str]
    paused: bool


def separated_chunks(
    stream: BinaryIO, kind: str, column: str | None, rows: int, place: str
) -> Iterator[TextChunk]:
    """The texts of a "csv" or "tsv" stream with a header, at most `rows` a chunk, or AccelError."""
    table = records(stream, kind, rows, place)
    header = next(table, None)
    if header is None:
        return
    number = find_column(column, header.fields, place)
    texts: list[bytes] = []
    failed: dict[int, str] = {}
    first, size = 1, 0
    for record in table:
        if number >= len(record.fields):
            failed[len(texts)] = (
                f"{place}:{record.line}: the record has {len(record.fields)} fields,"
                f" the column {header.fields[number]!r} is number {number + 1}"
            )
        text = record.fields[number] if number < len(record.fields) else ""
        texts.append(cut(text.encode("utf-8", "surrogateescape"), LINE_LIMIT))
        size += len(texts[-1])
        if len(texts) == rows or size >= CHUNK_BYTES or record.paused:
            yield TextChunk(texts, first, failed)
            first += len(texts)
            texts, failed, size = [], {}, 0
    if texts:
        yield TextChunk(texts, first, failed)


def records(stream: BinaryIO, kind: str, rows: int, place: str) -> Iterator[Record]:
    """The records of a "csv" or "tsv" stream, or InputError; blank lines between records are none.

    Lines are read `rows` at a time. Bytes that are not UTF-8 come as lone surrogates (surrogateescape).
    """
    csv.field_size_limit(LIMIT)
    used_up = False  # whether every line read so far has been parsed
    begin, size = 1, 0  # the first line of the record being read, and its bytes so far

    def lines() -> Iterator[str]:
        nonlocal used_up, size
        for chunk in line_chunks(stream, rows, place, LIMIT + 4):
            for number, line in enumerate(chunk, 1):
                used_up = number == len(chunk)
                size += len(line)
                if size > LIMIT:  # memory has a bound, even where a quote is never closed
                    raise InputError(
                        f"{place}:{begin}: the record that begins in this line is longer than"
                        f" {LIMIT >> 20} MiB; shorten it, or look for a quote that is not closed"
                    )
                yield line.decode("utf-8", "surrogateescape") + "\n"

    # strict: a quote that is never closed must not swallow the rest of the file
    table = csv.reader(lines(), delimiter="\t" if kind == "tsv" else ",", strict=True)
    try:
        for fields in table:
            if fields:
                yield Record(begin, fields, used_up and idle(stream))
            begin, size = table.line_num + 1, 0
    except csv.Error as error:
        raise InputError(
            f"{place}:{begin}: not valid {kind}: {error}; in the record that begins in this line, enclose"
            ' fields in " and double the quotes inside them'
        ) from error


def find_column(column: str | None, names: Sequence[str], place: str) -> int:
    """Which of the columns, of these names, holds the texts; AccelError if that is not to be seen."""
    if column is None:
        if "text" in names:
            return names.index("text")
        raise UsageError(f"{place}: say with --column which of the columns {', '.join(names)} to classify")
    if column not in names:
        raise InputError(f"{place} has no column {column!r}; its columns: {', '.join(names)}")
    return names.index(column)
