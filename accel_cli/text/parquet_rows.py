"""Rows of the output as Parquet: columns kept of the input, then what was found (extra `parquet`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from accel_cli.batches import Predictions
from accel_cli.errors import InputError, UsageError
from accel_cli.text.chunks import Chunk, TextChunk
from accel_cli.text.parquet import kept_schema, pyarrow
from accel_cli.text.parquet_writer import ParquetWriter
from accel_cli.text.readers import Source

_GROUP_ROWS = 1 << 17  # rows of a row group
_GROUP_BYTES = 64 << 20  # bytes of rows that are gathered at most


def parquet_formatter(
    fields: Sequence[str], labels: Sequence[str], sources: Iterable[Source]
) -> ParquetFormatter:
    """What makes the rows of some sources, with the columns that they keep.

    Raises UsageError if a kept column has the name of a field, InputError if a source lacks one or
    holds it as another type than the first source.
    """
    kept = None
    for source in sources:
        found = kept_schema(source.file, source.keep)
        if kept is not None and not found.equals(kept):
            raise InputError(
                f"{source.place} holds the columns to keep as {_types(found)}, the inputs before it as"
                f" {_types(kept)}; run it by itself, or convert it"
            )
        kept = found
    return ParquetFormatter(fields, labels, kept)


class ParquetFormatter:
    """Rows of Parquet: the columns of the pyarrow schema `kept`, if any, then `fields` in their order.

    A label is a string of a dictionary, a score a float32; `scores` and `logits` are a column a label,
    named as in `scores.positive`. A record that failed has nulls.
    """

    def __init__(self, fields: Sequence[str], labels: Sequence[str], kept: Any = None) -> None:
        self._arrow = pyarrow("Parquet as output")
        self._fields = fields
        self._labels = labels
        self._schema = self._arrow.schema([*(kept or ()), *self._found()])
        for name in self._schema.names:
            if self._schema.names.count(name) > 1:
                raise UsageError(
                    f"--keep {name}: another column of the output has that name; leave it out of --keep or of"
                    " --fields, or rename it in the input"
                )
        self._writer = ParquetWriter(self._schema)
        self._waiting: list[Any] = []

    def header(self) -> bytes:
        """What a Parquet file begins with."""
        return self._writer.drain()

    def rows(self, chunk: Chunk, predictions: Predictions) -> bytes:
        """The bytes that are final with this chunk: none before a row group is full."""
        self._waiting.append(self._table(chunk, predictions))
        rows = sum(map(len, self._waiting))
        if rows >= _GROUP_ROWS or sum(table.nbytes for table in self._waiting) >= _GROUP_BYTES:
            self._flush()
        return self._writer.drain()

    def footer(self) -> bytes:
        """The last row group, and the directory of all."""
        self._flush()
        self._writer.close()
        return self._writer.drain()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write(self._arrow.concat_tables(self._waiting))
        self._waiting = []

    def _found(self) -> Iterator[Any]:
        """The columns of the fields."""
        arrow = self._arrow
        kinds = {"text": arrow.string(), "label": arrow.dictionary(arrow.int32(), arrow.string())}
        for name in self._fields:
            if name in ("scores", "logits"):
                yield from (arrow.field(f"{name}.{label}", arrow.float32()) for label in self._labels)
            else:
                yield arrow.field(name, kinds.get(name, arrow.float32()))

    def _table(self, chunk: Chunk, found: Predictions) -> Any:
        failed = chunk.failed if isinstance(chunk, TextChunk) else {}
        missing = np.zeros(len(chunk), dtype=bool)
        missing[list(failed)] = True
        kept = chunk.kept.columns if isinstance(chunk, TextChunk) and chunk.kept is not None else []
        values = [column for name in self._fields for column in self._values(name, chunk, found, missing)]
        return self._arrow.Table.from_arrays([*kept, *values], schema=self._schema)

    def _values(self, name: str, chunk: Chunk, found: Predictions, missing: Any) -> Iterator[Any]:
        array = self._arrow.array
        if name == "text":
            texts = chunk.texts if isinstance(chunk, TextChunk) else []
            yield array([text.decode("utf-8", "replace") for text in texts])
        elif name == "label":
            indices = array(found.labels, self._arrow.int32(), mask=missing)
            yield self._arrow.DictionaryArray.from_arrays(indices, array(self._labels))
        elif name == "score":
            yield array(found.scores.max(axis=1), mask=missing)
        else:
            for column in getattr(found, name).T:
                yield array(np.ascontiguousarray(column), mask=missing)


def _types(schema: Any) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
