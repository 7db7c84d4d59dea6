"""Outputs: tsv, jsonl or csv, one row a record, to stdout or to a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import select
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accel_cli.batches import Predictions
from accel_cli.errors import OutputError

FIELDS = ("text", "label", "score", "scores", "logits")
FORMATS = ("tsv", "jsonl", "csv")

Rows = Sequence[Sequence[Any]]
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class Formatter:
    """Turns predictions into bytes, `fields` in their order."""

    def __init__(self, layout: str, fields: Sequence[str], labels: Sequence[str]) -> None:
        self._layout = layout
        self._fields = fields
        self._labels = labels
        self._render: Callable[[Rows], str] = {"tsv": _tsv, "csv": _csv, "jsonl": self._jsonl}[layout]

    def header(self) -> bytes:
        """The first line of a csv file; the other formats have none."""
        if self._layout != "csv":
            return b""
        names: list[str] = []
        for name in self._fields:
            names += [f"{name}.{label}" for label in self._labels] if name in ("scores", "logits") else [name]
        return _csv([names]).encode()

    def rows(self, texts: Sequence[bytes] | None, predictions: Predictions, failed: Sequence[int]) -> bytes:
        """One row a record; a failed record has empty values."""
        columns: list[Sequence[Any]] = []
        for name in self._fields:
            columns += self._columns(name, texts, predictions)
        rows = list(zip(*columns, strict=True))
        for place in failed:
            empty = None if self._layout == "jsonl" else ""
            kept = texts[place].decode("utf-8", "replace") if texts else ""
            rows[place] = tuple(kept if name == "text" else empty for name in self._wide())
        return self._render(rows).encode("utf-8", "replace")

    def _wide(self) -> list[str]:
        """The field that each column belongs to."""
        wide: list[str] = []
        for name in self._fields:
            many = name in ("scores", "logits") and self._layout != "jsonl"
            wide += [name] * (len(self._labels) if many else 1)
        return wide

    def _columns(self, name: str, texts: Sequence[bytes] | None, found: Predictions) -> list[Sequence[Any]]:
        if name == "text":
            assert texts is not None
            return [[text.decode("utf-8", "replace") for text in texts]]
        if name == "label":
            return [[self._labels[label] for label in found.labels.tolist()]]
        if name == "score":
            return [self._numbers(found.scores.max(axis=1).tolist())]
        values = getattr(found, name)
        if self._layout == "jsonl":
            return [[dict(zip(self._labels, map(_round, row), strict=True)) for row in values.tolist()]]
        return [self._numbers(values[:, label].tolist()) for label in range(len(self._labels))]

    def _numbers(self, values: list[float]) -> Sequence[Any]:
        return list(map(_round, values)) if self._layout == "jsonl" else [f"{value:.6f}" for value in values]

    def _jsonl(self, rows: Rows) -> str:
        encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
        return "".join([encode(dict(zip(self._fields, row, strict=True))) + "\n" for row in rows])


def _round(value: float) -> float:
    return round(value, 6)


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


@contextmanager
def opened_output(path: str | None, overwrite: bool) -> Iterator[io.FileIO]:
    """stdout (for None or `-`), or a file that is renamed into place at the end, if all went well."""
    if path is None or path == "-":
        if sys.stdout is None:
            raise OutputError("stdout is closed; name a file with --output")
        with open(1, "wb", buffering=0, closefd=False) as stdout:
            yield stdout
        return
    if _is_special(path):
        with _opened(path) as special:
            yield special
        return
    with beside(path, overwrite) as temporary, _opened(temporary) as file:
        yield file


def claim(path: str, overwrite: bool) -> Path:
    """The file that an output goes to, links followed; OutputError if it may not be written."""
    if not path:
        raise OutputError("the name of an output is empty; name a file")
    if path.endswith(os.sep) or os.path.isdir(path):
        raise OutputError(f"{path} is a folder; name a file")
    if _is_special(path):
        raise OutputError(f"{path} is a pipe or a device, which cannot hold this output; name a file")
    if os.path.exists(path) and not overwrite:
        raise OutputError(f"{path} exists already; say --overwrite to replace it, or name another file")
    return Path(os.path.realpath(path))


@contextmanager
def beside(path: str, overwrite: bool) -> Iterator[str]:
    """A temporary file that becomes the output `path` at the end, if all went well, and else is gone."""
    target = claim(path, overwrite)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}-")
    except OSError as error:
        raise OutputError(
            f"cannot write into {target.parent}: {error.strerror}; name a file in another folder"
        ) from error
    os.close(handle)
    try:
        yield temporary
        try:
            _rename(temporary, target, overwrite)
        except FileExistsError:
            raise OutputError(
                f"{path} has come to exist meanwhile; say --overwrite to replace it, or name another file"
            ) from None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}; name another file") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_all(file: io.FileIO, rows: bytes) -> None:
    """Write every byte, waiting where the output is a full pipe that would not wait by itself."""
    left = memoryview(rows)
    while left:
        count = file.write(left)
        if count is None:
            select.select([], [file], [])
        left = left[count or 0 :]


def _is_special(path: str) -> bool:
    """Whether the path is there and is a pipe or a device, which cannot be replaced by a rename."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _opened(path: str) -> io.FileIO:
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror}; name another file") from error


def _rename(temporary: str, target: Path, overwrite: bool) -> None:
    """Give a finished file its name, with the rights of the file it replaces or of any new one."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.chmod(temporary, _rights(target))
    if not overwrite:
        try:
            os.link(temporary, target)  # unlike a rename, never in the place of a file that is there
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.close(os.open(target, os.O_CREAT | os.O_EXCL))
    os.replace(temporary, target)


def _rights(target: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
