"""Rows of the output, one a record: as tsv, jsonl or csv."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from accel_cli.batches import Predictions
from accel_cli.text.chunks import Chunk, TextChunk

FIELDS = ("text", "label", "score", "scores", "logits")
FORMATS = ("tsv", "jsonl", "csv")

SCORE_DECIMALS = 4
Rows = Sequence[Sequence[Any]]
_DECIMALS = {"score": SCORE_DECIMALS, "scores": SCORE_DECIMALS, "logits": 6}
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Formatter(Protocol):
    """Turns predictions into the bytes of an output: a header, the rows of each chunk, a footer."""

    def header(self) -> bytes:
        """What the output begins with."""
        ...

    def rows(self, chunk: Chunk, predictions: Predictions) -> bytes:
        """One row for each record of a chunk, in order; one that failed has empty values."""
        ...

    def footer(self) -> bytes:
        """What the output ends with, once all rows are written."""
        ...


class TextFormatter:
    """Rows of tsv, jsonl or csv, `fields` in their order. Numbers are rounded half to even."""

    def __init__(self, layout: str, fields: Sequence[str], labels: Sequence[str]) -> None:
        self.fields = fields
        self._layout = layout
        self._labels = labels
        self._render: Callable[[Rows], str] = {"tsv": _tsv, "csv": _csv, "jsonl": self._jsonl}[layout]
        self._key = (layout, tuple(fields), tuple(labels))

    def __eq__(self, other: object) -> bool:
        """Whether both write the same rows."""
        return isinstance(other, TextFormatter) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def header(self) -> bytes:
        """The first line of a csv file; the other formats have none."""
        if self._layout != "csv":
            return b""
        names: list[str] = []
        for name in self.fields:
            names += [f"{name}.{label}" for label in self._labels] if name in ("scores", "logits") else [name]
        return _csv([names]).encode()

    def rows(self, chunk: Chunk, predictions: Predictions) -> bytes:
        """One row a record; a failed record has empty values."""
        texts, failed = (chunk.texts, chunk.failed) if isinstance(chunk, TextChunk) else ([], {})
        columns: list[Sequence[Any]] = []
        for name in self.fields:
            columns += self._columns(name, texts, predictions)
        rows = list(zip(*columns, strict=True))
        for place in failed:
            empty = None if self._layout == "jsonl" else ""
            rows[place] = tuple(
                texts[place].decode("utf-8", "replace") if name == "text" else empty for name in self._wide()
            )
        return self._render(rows).encode("utf-8", "replace")

    def footer(self) -> bytes:
        """Nothing follows the rows."""
        return b""

    def _wide(self) -> list[str]:
        """The field that each column belongs to."""
        wide: list[str] = []
        for name in self.fields:
            many = name in ("scores", "logits") and self._layout != "jsonl"
            wide += [name] * (len(self._labels) if many else 1)
        return wide

    def _columns(self, name: str, texts: Sequence[bytes], found: Predictions) -> list[Sequence[Any]]:
        if name == "text":
            return [[text.decode("utf-8", "replace") for text in texts]]
        if name == "label":
            return [[self._labels[label] for label in found.labels.tolist()]]
        decimals = _DECIMALS[name]
        if name == "score":
            return [self._numbers(found.scores.max(axis=1).tolist(), decimals)]
        values = getattr(found, name)
        if self._layout == "jsonl":
            rounded = [[round(value, decimals) for value in row] for row in values.tolist()]
            return [[dict(zip(self._labels, row, strict=True)) for row in rounded]]
        return [self._numbers(values[:, label].tolist(), decimals) for label in range(len(self._labels))]

    def _numbers(self, values: list[float], decimals: int) -> Sequence[Any]:
        if self._layout == "jsonl":
            return [round(value, decimals) for value in values]
        return [f"{value:.{decimals}f}" for value in values]

    def _jsonl(self, rows: Rows) -> str:
        encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
        return "".join([encode(dict(zip(self.fields, row, strict=True))) + "\n" for row in rows])


def _tsv(rows: Rows) -> str:
    lines = ["\t".join(row) for row in rows]
    text = "\n".join(lines) + "\n" if lines else ""
    # backslashes and line ends occur in texts alone, and seldom
    if "\\" in text or "\r" in text or text.count("\n") != len(rows) or _too_many_tabs(text, rows):
        lines = ["\t".join([value.translate(_ESCAPES) for value in row]) for row in rows]
        text = "\n".join(lines) + "\n"
    return text


def _too_many_tabs(text: str, rows: Rows) -> bool:
    return bool(rows) and text.count("\t") != len(rows) * (len(rows[0]) - 1)


class _CsvLines(list[str]):
    """Rows that end in a newline, though csv must think of CRLF: else it leaves a lone CR unquoted."""

    def write(self, row: str) -> None:
        """Keep a row."""
        self.append(row[:-2] + "\n")


def _csv(rows: Rows) -> str:
    lines = _CsvLines()
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return "".join(lines)
