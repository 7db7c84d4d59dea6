"""Files of labelled texts: `label<TAB>text` lines, csv or tsv with a header, jsonl; packed or not, stdin."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from accel_cli.errors import InputError, UsageError
from accel_cli.text.chunks import TextChunk
from accel_cli.text.kinds import named_kind, suffix
from accel_cli.text.lines import LINE_LIMIT
from accel_cli.text.readers import Source

LAYOUTS = ("plain", "tsv", "csv", "jsonl")
_BY_SUFFIX = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_PREFIX = "__label__"  # fastText's
_LINES = 4096  # read at a time
_FIELD_LIMIT = 64 << 20  # bytes of a field that holds newlines


class Row(NamedTuple):
    """A text, what it is said to be, and the line where it begins."""

    label: str
    text: bytes
    line: int


class Labelled:
    """One input: a path, or `-` for stdin.

    `layout` is one of LAYOUTS; None chooses by the file's name, and where that says nothing of csv or
    jsonl, by the first line: with a field `label` it is the header of a tsv, else all lines are plain.
    Columns that are named call for a header. A plain line is `label<TAB>text`, or fastText's
    `__label__name text`; nothing in it is quoted. Blank lines are no rows.
    """

    def __init__(
        self, path: str, layout: str | None = None, column: str | None = None, label_column: str | None = None
    ) -> None:
        self.source = Source(path, "text")
        self.place = self.source.place
        if layout is None and named_kind(self.place) == "parquet":
            raise UsageError(
                f"{self.place}: labelled texts are read from plain lines, tsv, csv and jsonl, not from"
                " Parquet; convert it"
            )
        self._named = column is not None or label_column is not None
        self._layout = layout or _BY_SUFFIX.get(suffix(self.place)) or ("tsv" if self._named else None)
        self._column = column or "text"
        self._label_column = label_column or "label"
        if self._layout == "plain" and self._named:
            raise UsageError(
                f"--column and --label-column have no meaning for {self.place}, which is read as plain lines;"
                " leave them out, or say --input-format tsv, csv or jsonl"
            )

    def at(self, line: int) -> str:
        """A place in the input."""
        return f"{self.place}:{line}"

    def rows(self) -> Iterator[Row]:
        """The rows in order; InputError at the first one that is broken."""
        lines = self._lines()
        first = next(lines, None)
        if first is None:
            return
        layout = self._layout or ("tsv" if b"label" in first.split(b"\t") else "plain")
        lines = chain([first], lines)
        if layout == "plain":
            yield from self._plain(lines)
        elif layout == "jsonl":
            yield from self._jsonl(lines)
        else:
            yield from self._separated(lines, layout)

    def chunks(self, size: int) -> Iterator[list[Row]]:
        """The rows in lists of at most `size`."""
        rows = self.rows()
        while some := list(islice(rows, size)):
            yield some

    def _lines(self) -> Iterator[bytes]:
        for chunk in self.source.chunks(_LINES, (1, None)):
            assert isinstance(chunk, TextChunk)
            yield from chunk.texts

    def _plain(self, lines: Iterator[bytes]) -> Iterator[Row]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            fasttext = line.startswith(_PREFIX.encode())
            head, *rest = line.split(None if fasttext else b"\t", 1)
            if not fasttext and not rest:
                raise InputError(
                    f"{self.at(number)}: no tab between a label and a text; write label<TAB>text, or say"
                    " --input-format csv or jsonl"
                )
            label, text = _decoded(head), rest[0] if rest else b""
            if fasttext and text.startswith(_PREFIX.encode()):
                raise InputError(f"{self.at(number)}: several labels; accel gives each text one: keep one")
            yield self._row(label.removeprefix(_PREFIX) if fasttext else label, text, number)

    def _jsonl(self, lines: Iterator[bytes]) -> Iterator[Row]:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            self._check_length(line, number)
            try:
                record = json.loads(line.decode("utf-8", "surrogateescape"))
            except json.JSONDecodeError as error:
                reason = f"{error.msg} at character {error.pos + 1}"
                raise InputError(f"{self.at(number)}: not valid JSON: {reason}; repair it") from None
            except ValueError:  # a whole number of thousands of digits
                raise InputError(f"{self.at(number)}: a number too long to read; repair it") from None
            except RecursionError:
                raise InputError(f"{self.at(number)}: nested too deeply; give an object a line") from None
            text, label = self._value(record, self._column, number), self._label(record, number)
            if not isinstance(text, str):
                raise InputError(
                    f"{self.at(number)}: {self._column!r} is {type(text).__name__}, not a string; repair it"
                )
            yield self._row(label, _encoded(text), number)

    def _value(self, record: Any, key: str, number: int) -> Any:
        if not isinstance(record, dict):
            raise InputError(f"{self.at(number)}: expected a JSON object, got {type(record).__name__}")
        if key not in record:
            raise InputError(
                f"{self.at(number)}: no key {key!r}; its keys: {', '.join(record) or 'none'}; name one with"
                f" {self._option(key)}"
            )
        return record[key]

    def _label(self, record: Any, number: int) -> str:
        label = self._value(record, self._label_column, number)
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(
                f"{self.at(number)}: {self._label_column!r} is {type(label).__name__}, not a string or a"
                " whole number; repair it"
            )
        return str(label)

    def _separated(self, lines: Iterator[bytes], layout: str) -> Iterator[Row]:
        csv.field_size_limit(_FIELD_LIMIT)
        # strict: a quote that is never closed must not swallow the rest of the file
        table = csv.reader(
            self._decoded_lines(lines), delimiter="\t" if layout == "tsv" else ",", strict=True
        )
        begin = 1
        try:
            header = next(filter(None, table), None)
            if header is None:
                return
            text, label = self._find(header, self._column), self._find(header, self._label_column)
            begin = table.line_num + 1
            for record in table:
                if record and len(record) <= max(text, label):
                    raise InputError(
                        f"{self.at(begin)}: the record has {len(record)} fields, the header {len(header)};"
                        " repair it"
                    )
                if record:
                    yield self._row(record[label], _encoded(record[text]), begin)
                begin = table.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{self.at(begin)}: not valid {layout}: {error}; in the record that begins in this line,"
                ' enclose fields in " and double the quotes inside them'
            ) from error

    def _decoded_lines(self, lines: Iterator[bytes]) -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            self._check_length(line, number)
            yield line.decode("utf-8", "surrogateescape") + "\n"

    def _find(self, header: Sequence[str], column: str) -> int:
        if column in header:
            return header.index(column)
        remedy = "" if self._named else ", or say --input-format plain if line 1 is no header"
        raise InputError(
            f"{self.place} has no column {column!r}; its columns: {', '.join(header)}; name one with"
            f" {self._option(column)}{remedy}"
        )

    def _option(self, column: str) -> str:
        return "--column" if column == self._column else "--label-column"

    def _check_length(self, line: bytes, number: int) -> None:
        if len(line) >= LINE_LIMIT:  # it may have been cut there
            raise InputError(f"{self.at(number)}: the line is longer than {LINE_LIMIT >> 20} MiB; shorten it")

    def _row(self, label: str, text: bytes, number: int) -> Row:
        label = label.strip()
        if not label:
            raise InputError(f"{self.at(number)}: the label is empty; name one, or drop the line")
        return Row(label, text, number)


def _decoded(field: bytes) -> str:
    return field.decode("utf-8", "replace")


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, escaped in JSON
        return text.encode("utf-8", "surrogatepass")
