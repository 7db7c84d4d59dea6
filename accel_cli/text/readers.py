"""Inputs: text, csv, tsv, jsonl and Parquet files, packed or not, pipes and URLs, and arrays of numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from accel_cli.errors import InputError, UsageError
from accel_cli.text import jsonl, parquet
from accel_cli.text.arrays import array_chunks
from accel_cli.text.chunks import Chunk, TextChunk, text_chunks
from accel_cli.text.files import LocalFile, Reader
from accel_cli.text.jsonl import json_chunks
from accel_cli.text.kinds import named_kind, packing
from accel_cli.text.lines import line_chunks
from accel_cli.text.remote import RemoteFile
from accel_cli.text.separated import separated_chunks
from accel_cli.text.span import Span
from accel_cli.text.unpacking import unpacked, zstd
from accel_cli.text.urls import is_url

_WITH_COLUMNS = ("csv", "tsv", "jsonl", "parquet")


class Source:
    """One input: a path, a URL, or `-` for stdin. `kind` is one of KINDS; None chooses by the file's name.

    With a `span`, of those that `spans` gives, only that part is read. `keep` names columns of a
    Parquet file that are handed on beside the texts.
    """

    def __init__(
        self,
        path: str,
        kind: str | None = None,
        column: str | None = None,
        span: Span | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.file = RemoteFile(path) if is_url(path) else LocalFile(path)
        self.place = self.file.place
        self.kind = kind or named_kind(self.place)
        self.arrays = self.kind in (None, "ids", "embeddings")
        self.column = column
        self.span = span
        self.keep = tuple(keep)
        self.done = 0
        self._packing = packing(self.place)
        self._check()

    def at(self, record: int) -> str:
        """Where a record stands. Of text and jsonl its number is also that of its line.

        Within a span, records are numbered from its start.
        """
        lines = self.kind in ("text", "jsonl")
        if self.span is None or self.span.start == 0:
            return f"{self.place}:{record}" if lines else f"{self.place}, record {record}"
        part, item = ("bytes", "line") if lines else ("row groups", "record")
        return f"{self.place}, {part} {self.span.start} to {self.span.stop - 1}, {item} {record} there"

    @property
    def size(self) -> int | None:
        """The bytes that will be read, those of Parquet unpacked, as far as that is known."""
        if self.kind == "parquet":
            return sum(self.row_groups()[slice(*self._bounds())])
        start, stop = self._bounds()
        return self.file.size if stop is None else stop - start

    @property
    def divisible(self) -> int | None:
        """The bytes of a file that can be cut at the ends of lines, else None."""
        lines = self.kind in ("text", "jsonl") and self._packing is None
        return self.file.size if lines and self.file.ranged else None

    @property
    def plain(self) -> tuple[int, int] | None:
        """Start and stop of the bytes of a local, regular, unpacked file of text; None for all others."""
        if self.kind != "text" or self.divisible is None or isinstance(self.file, RemoteFile):
            return None
        start, stop = self._bounds()
        return start, self.divisible if stop is None else stop

    def fingerprint(self) -> dict[str, int | str]:
        """What changes when the content does: size, and time of the change or ETag; empty for a pipe."""
        return self.file.fingerprint()

    def row_groups(self) -> list[int]:
        """The bytes of each row group of a Parquet file, unpacked."""
        return parquet.row_group_sizes(self.file)

    @contextmanager
    def ranges(self) -> Iterator[Reader]:
        """Any range of the bytes of a `divisible` file, errors as InputError."""
        with self._named_errors(), self.file.ranges() as read:
            yield read

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The stream of bytes, unpacked, with its errors as InputError."""
        with (
            self._named_errors(),
            self.file.stream(*self._bounds(), self.count) as stream,
            unpacked(stream, self._packing, self.place) as plain,
        ):
            yield plain

    def chunks(self, rows: int, dimensions: tuple[int, int | None]) -> Iterator[Chunk]:
        """The records in order, at most `rows` a chunk, or InputError.

        `dimensions` are the embedding's dimension and the fixed length of a sentence, which a raw
        .bin file does not state.
        """
        if self.arrays:
            for chunk in array_chunks(Path(self.path), self.kind, rows, dimensions):
                yield chunk
                self.done += chunk.values.nbytes
        elif self.kind == "parquet":
            with self._named_errors():
                yield from self._parquet(rows)
        else:
            with self.opened() as stream:
                yield from self._texts(stream, rows)

    def count(self, read: int) -> None:
        """Account for bytes that were read."""
        self.done += read

    def _bounds(self) -> tuple[int, int | None]:
        return (0, None) if self.span is None else (self.span.start, self.span.stop)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot read {self.place}: {error.strerror or error}") from error

    def _check(self) -> None:
        """Refuse what can be seen to be wrong before anything is loaded."""
        if not self.path:
            raise UsageError("the name of an input is empty; name a file, or - for stdin")
        if self.column is not None and self.kind not in _WITH_COLUMNS:
            raise UsageError(
                f"--column has no meaning for {self.place}, which is read as {self.kind or 'an array'};"
                " it is for csv, tsv, jsonl and parquet (see --input-format)"
            )
        if self.keep and self.kind != "parquet":
            raise UsageError(
                f"--keep has no meaning for {self.place}, which is read as {self.kind or 'an array'}; it is"
                " for parquet: convert the file, or join the rows with it by their order"
            )
        if self.path == "-" and (self.arrays or self.kind == "parquet"):
            what = "Parquet is" if self.kind == "parquet" else "token ids and embeddings are"
            raise UsageError(f"{what} read from files, not from stdin")
        if self.arrays and isinstance(self.file, RemoteFile):
            raise UsageError(f"{self.place}: arrays are mapped into memory, not fetched; copy the file here")
        self.file.check()
        if self._packing and (self.arrays or self.kind == "parquet"):
            what = "Parquet files are" if self.kind == "parquet" else "arrays are"
            tool = "gunzip" if self._packing == ".gz" else "unzstd"
            raise InputError(f"{self.place}: {what} read without unpacking; unpack it with {tool} first")
        if self._packing == ".zst":
            zstd(self.place)
        if self.kind == "parquet":
            parquet.pyarrow(self.place)

    def _texts(self, stream: BinaryIO, rows: int) -> Iterator[TextChunk]:
        within = self._bounds()[0] > 0
        if self.kind == "text":
            return text_chunks(line_chunks(stream, rows, self.place, within=within))
        if self.kind == "jsonl":
            lines = line_chunks(stream, rows, self.place, jsonl.LIMIT + 4, within=within)
            return json_chunks(lines, self.column or "text", self.at)
        return separated_chunks(stream, str(self.kind), self.column, rows, self.place)

    def _parquet(self, rows: int) -> Iterator[TextChunk]:
        size, done = self.size or 0, self.done
        wanted = parquet.Wanted(self.column, self.keep, *self._bounds())
        for chunk, share in parquet.parquet_chunks(self.file, wanted, rows, self.at):
            yield chunk
            self.done = done + round(size * share)


def default_inputs() -> tuple[str, ...]:
    """stdin when something is piped into it, else nothing."""
    try:
        return () if sys.stdin is None or os.isatty(sys.stdin.fileno()) else ("-",)
    except (OSError, ValueError):
        return ()
