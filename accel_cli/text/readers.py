"""Inputs: text, csv, tsv and jsonl files (also .gz), stdin, and arrays of token ids or embeddings."""

from __future__ import annotations

import gzip
import io
import json
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from accel_cli.errors import InputError, UsageError
from accel_cli.text.arrays import array_chunks
from accel_cli.text.chunks import Chunk, TextChunk
from accel_cli.text.lines import CHUNK_BYTES, LINE_LIMIT, cut, line_chunks
from accel_cli.text.separated import records

KINDS = ("text", "csv", "tsv", "jsonl", "ids", "embeddings")
_TURN = 0.5  # seconds
_BY_SUFFIX = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_JSON_LIMIT = 64 << 20  # bytes of a record


class Source:
    """One input: a path, or `-` for stdin. `kind` is one of KINDS; None chooses by the file's name."""

    def __init__(self, path: str, kind: str | None = None, column: str | None = None) -> None:
        self.path = path
        self.place = "stdin" if path == "-" else path
        suffix = Path(path.removesuffix(".gz")).suffix.lower()
        self.arrays = kind in ("ids", "embeddings") if kind else suffix in (".npy", ".bin")
        self.kind = kind or (None if self.arrays else _BY_SUFFIX.get(suffix, "text"))
        self.column = column
        self.done = 0
        self._check()

    def at(self, record: int) -> str:
        """Where a record stands. Only of text and jsonl is its number also that of its line."""
        return (
            f"{self.place}:{record}" if self.kind in ("text", "jsonl") else f"{self.place}, record {record}"
        )

    @property
    def size(self) -> int | None:
        """The bytes of a regular file, else None."""
        path = Path(self.path)
        return path.stat().st_size if self.path != "-" and path.is_file() else None

    def chunks(self, rows: int, dimensions: tuple[int, int | None]) -> Iterator[Chunk]:
        """The records in order, at most `rows` a chunk, or InputError.

        `dimensions` are the embedding's dimension and the fixed length of a sentence, which a raw
        .bin file does not state.
        """
        if self.arrays:
            for chunk in array_chunks(Path(self.path), self.kind, rows, dimensions):
                yield chunk
                self.done += chunk.values.nbytes
            return
        with self._opened() as stream:
            read = {"text": self._text, "jsonl": self._jsonl}.get(str(self.kind), self._separated)
            yield from read(stream, rows)

    def _check(self) -> None:
        """Refuse what can be seen to be wrong before anything is loaded."""
        if not self.path:
            raise UsageError("the name of an input is empty; name a file, or - for stdin")
        if self.column is not None and self.kind not in ("csv", "tsv", "jsonl"):
            raise UsageError(
                f"--column has no meaning for {self.place}, which is read as {self.kind or 'an array'};"
                " it is for csv, tsv and jsonl (see --input-format)"
            )
        if self.path == "-":
            if self.arrays:
                raise UsageError("token ids and embeddings are read from files, not from stdin")
            if sys.stdin is None:
                raise InputError("stdin is closed; name a file with --input")
            return
        path = Path(self.path)
        if os.path.isdir(path):
            raise InputError(f"{path} is a folder; name the files in it, each with an --input of its own")
        try:
            if stat.S_ISREG(path.stat().st_mode):  # opening a pipe and closing it would end its writer
                path.open("rb").close()
        except OSError as error:
            raise InputError(
                f"cannot read {path}: {error.strerror}; check the name and its rights"
            ) from error
        if self.arrays and path.suffix == ".gz":
            raise InputError(f"{path}: arrays are read without unpacking; unpack it with gunzip first")

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """The stream of bytes, unpacked, with its errors as InputError."""
        stdin = self.path == "-"
        try:
            with open(0 if stdin else self.path, "rb", buffering=0, closefd=not stdin) as raw:
                watched = cast("BinaryIO", _Watched(raw, self))
                packed = self.path.endswith(".gz")
                yield cast("BinaryIO", gzip.GzipFile(fileobj=watched)) if packed else watched
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{self.place} is not a whole gzip file ({error}); fetch or pack it again"
            ) from error
        except OSError as error:
            raise InputError(f"cannot read {self.place}: {error.strerror or error}") from error

    def _text(self, stream: BinaryIO, rows: int) -> Iterator[TextChunk]:
        first = 1
        for lines in line_chunks(stream, rows, self.place):
            yield TextChunk(lines, first)
            first += len(lines)

    def _jsonl(self, stream: BinaryIO, rows: int) -> Iterator[TextChunk]:
        column, first = self.column or "text", 1
        for lines in line_chunks(stream, rows, self.place, _JSON_LIMIT + 4):
            texts, failed = [], {}
            for place, line in enumerate(lines):
                try:
                    texts.append(cut(_json_text(line, column), LINE_LIMIT))
                except ValueError as error:
                    failed[place] = f"{self.place}:{first + place}: {error}"
                    texts.append(b"")
            yield TextChunk(texts, first, failed)
            first += len(lines)

    def _separated(self, stream: BinaryIO, rows: int) -> Iterator[TextChunk]:
        """CSV and TSV with a header."""
        table = records(stream, str(self.kind), rows, self.place)
        header = next(table, None)
        if header is None:
            return
        column = self._column(header.fields)
        texts: list[bytes] = []
        failed: dict[int, str] = {}
        first, size = 1, 0
        for record in table:
            if column >= len(record.fields):
                failed[len(texts)] = (
                    f"{self.place}:{record.line}: the record has {len(record.fields)} fields,"
                    f" the column {header.fields[column]!r} is number {column + 1}"
                )
            text = record.fields[column] if column < len(record.fields) else ""
            texts.append(cut(text.encode("utf-8", "surrogateescape"), LINE_LIMIT))
            size += len(texts[-1])
            if len(texts) == rows or size >= CHUNK_BYTES or record.paused:
                yield TextChunk(texts, first, failed)
                first += len(texts)
                texts, failed, size = [], {}, 0
        if texts:
            yield TextChunk(texts, first, failed)

    def _column(self, header: list[str]) -> int:
        """Where the texts stand in each record."""
        if self.column is None:
            if "text" in header:
                return header.index("text")
            raise UsageError(
                f"{self.place}: say with --column which of the columns {', '.join(header)} to classify"
            )
        if self.column not in header:
            raise InputError(f"{self.place} has no column {self.column!r}; its columns: {', '.join(header)}")
        return header.index(self.column)


class _Watched(io.RawIOBase):
    """A binary stream that gives what is there, as read1 does, and counts it into its source."""

    def __init__(self, raw: io.FileIO, source: Source) -> None:
        self._raw = raw
        self._source = source

    def readable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor read from."""
        return self._raw.fileno()

    def read1(self, size: int = -1) -> bytes:
        """At most `size` bytes, by one read of the system; nothing only at the end."""
        self._wait()
        while (block := self._raw.read(size)) is None:  # non-blocking, and no byte is there
            self._wait()
        self._source.done += len(block)
        return block

    def _wait(self) -> None:
        """Until something can be read; in turns, as a signal just before a blocking call does not end it."""
        while not select.select([self._raw], [], [], _TURN)[0]:
            pass

    def readinto(self, buffer: Any) -> int:
        """Fill the front of `buffer`."""
        block = self.read1(len(buffer))
        buffer[: len(block)] = block
        return len(block)


def _json_text(line: bytes, column: str) -> bytes:
    """The text of one JSON record; ValueError says what is wrong with it."""
    if len(line) > _JSON_LIMIT:
        raise ValueError(f"the record is longer than {_JSON_LIMIT >> 20} MiB")
    try:
        record = json.loads(line.decode("utf-8", "surrogateescape"))
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not readable JSON: nested too deeply") from None
    except ValueError:
        raise ValueError("not readable JSON: a number has more than 4300 digits") from None
    if not isinstance(record, dict):
        raise ValueError(f"expected a JSON object, got {type(record).__name__}")
    if column not in record:
        raise ValueError(f"no key {column!r}; its keys: {', '.join(record) or 'none'}")
    value = record[column]
    if not isinstance(value, str):
        raise ValueError(f"{column!r} is {type(value).__name__}, not a string")
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def default_inputs() -> tuple[str, ...]:
    """stdin when something is piped into it, else nothing."""
    try:
        return () if sys.stdin is None or os.isatty(sys.stdin.fileno()) else ("-",)
    except (OSError, ValueError):
        return ()
