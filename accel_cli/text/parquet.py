"""Parquet files: row group after row group, a column of texts and those that are kept (extra `parquet`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from accel_cli.errors import InputError
from accel_cli.text.chunks import TextChunk
from accel_cli.text.extras import imported
from accel_cli.text.files import File
from accel_cli.text.joined import JoinedTexts
from accel_cli.text.lines import CHUNK_BYTES, LINE_LIMIT, cut
from accel_cli.text.separated import find_column

_BUFFER = 1 << 20  # bytes read at a time of a column
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


@dataclass(frozen=True)
class Wanted:
    """What of a file: the column of texts, those to keep, and the row groups from `start` up to `stop`."""

    column: str | None
    keep: tuple[str, ...]
    start: int
    stop: int | None


def pyarrow(place: str) -> Any:
    """The module, or AccelError: `place` needs it."""
    imported("pyarrow.parquet", "parquet", place)
    return imported("pyarrow", "parquet", place)


def row_group_sizes(file: File) -> list[int]:
    """The bytes of each row group, unpacked."""
    with opened(file) as table:
        # pyarrow aborts the process where a damaged footer lacks a column that one asks for
        return [table.metadata.row_group(number).total_byte_size for number in range(table.num_row_groups)]


def kept_schema(file: File, keep: tuple[str, ...]) -> Any:
    """The pyarrow schema of the columns to keep; InputError if one of them is not there once."""
    arrow = pyarrow(file.place)
    if not keep:
        return arrow.schema([])
    with opened(file) as table:
        schema = table.schema_arrow
        _check_names(schema.names, keep, file.place)
        return arrow.schema([schema.field(name) for name in keep])


def parquet_chunks(
    file: File, wanted: Wanted, rows: int, at: Callable[[int], str]
) -> Iterator[tuple[TextChunk, float]]:
    """The records in order, at most `rows` a chunk, and the share read so far; InputError where damaged.

    A null is a record without a text; `at` says where a record stands.
    """
    arrow = pyarrow(file.place)
    with opened(file) as table:
        names = table.schema_arrow.names
        text = names[find_column(wanted.column, names, file.place)]
        _check_names(names, (text, *wanted.keep), file.place)
        _check_strings(table.schema_arrow, text, file.place)
        counts = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
        _check_count(sum(counts), table.metadata.num_rows, file.place)
        groups = list(range(table.num_row_groups))[wanted.start : wanted.stop]
        total = sum(counts[group] for group in groups)
        if total == 0:
            return
        columns = list(dict.fromkeys((text, *wanted.keep)))
        first = 1
        for batch in table.iter_batches(_rows_at_once(table, groups, total, rows), groups, columns):
            if len(batch) == 0:
                continue
            texts, nulls = _texts(arrow, batch.column(text))
            failed = {place: f"{at(first + place)}: {text!r} is null, not a string" for place in nulls}
            kept = arrow.Table.from_batches([batch]).select(wanted.keep) if wanted.keep else None
            first += len(texts)
            yield TextChunk(texts, first - len(texts), failed, kept), (first - 1) / total
        _check_count(first - 1, total, file.place)


def _rows_at_once(table: Any, groups: list[int], total: int, rows: int) -> int:
    """Rows of a batch: fewer where they are so large that memory would have no bound."""
    size = sum(table.metadata.row_group(group).total_byte_size for group in groups)
    fitting: int = CHUNK_BYTES * total // max(1, size)
    return max(1, min(rows, fitting))


@contextmanager
def opened(file: File) -> Iterator[Any]:
    """The file as pyarrow reads it, or InputError; checksums of pages verified where they were written."""
    arrow = pyarrow(file.place)
    try:
        with file.seekable() as stream:
            yield arrow.parquet.ParquetFile(
                stream, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True
            )
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{file.place} is not a whole Parquet file ({reason}); fetch or write it again"
        ) from error


def _check_count(found: int, stated: int, place: str) -> None:
    """InputError where damage that no checksum covers has hidden records."""
    if found != stated:
        raise InputError(
            f"{place} is not a whole Parquet file ({found} records of {stated}); fetch or write it again"
        )


def _check_names(names: Sequence[str], wanted: Sequence[str], place: str) -> None:
    for name in wanted:
        if names.count(name) != 1:
            count = "several columns" if name in names else "no column"
            raise InputError(f"{place} has {count} {name!r}; its columns: {', '.join(names)}")


def _check_strings(schema: Any, name: str, place: str) -> None:
    kind = schema.field(name).type
    values = kind.value_type if str(kind).startswith("dictionary") else kind
    if str(values) not in _TEXTS:
        raise InputError(
            f"{place}: the column {name!r} holds {kind}, no strings; name one of strings with --column"
        )


def _texts(arrow: Any, column: Any) -> tuple[JoinedTexts, list[int]]:
    """The texts, each cut like a line, and the places of nulls, which have no bytes."""
    if isinstance(column, arrow.DictionaryArray):
        column = column.dictionary_decode()
    values = column.cast(arrow.large_binary())
    nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist()
    values = values.fill_null(b"")
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    begin = int(ends[0])
    held = bytes(memoryview(data)[begin : int(ends[-1])]) if data else b""
    texts = JoinedTexts(held, ends - begin)
    if (np.diff(ends) > LINE_LIMIT).any():
        texts = JoinedTexts.of(map(cut, texts, repeat(LINE_LIMIT)))
    return texts, nulls
