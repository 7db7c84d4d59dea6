"""Every way that labelled rows come in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from accel_cli.errors import UsageError
from accel_cli.text.labelled import Labelled, Row


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def fields(path: Path) -> list[tuple[str, bytes]]:
    return [row[:2] for row in Labelled(str(path)).rows()]


WANTED = [("no", b'so "so"'), ("1", b"b")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tsv", b'no\tso "so"\n\n1\tb'),
        ("a.txt", b'\xef\xbb\xbfno\tso "so"\r\n1\tb\r\n'),
        ("a.txt", b'__label__no so "so"\n__label__1\tb\n'),
        ("a.tsv", b'label\ttext\nno\tso "so"\n1\tb\n'),
        ("a.tsv", b'text\tid\tlabel\n"so ""so"""\t7\tno\nb\t8\t1\n'),
        ("a.csv", b'label,text\nno,"so ""so"""\n\n1,b\n'),
        ("a.jsonl", b'{"label": "no", "text": "so \\"so\\""}\n\n{"label": 1, "text": "b"}\n'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_layouts(tmp_path: Path, name: str, data: bytes, packed: bool) -> None:
    path = tmp_path / (name + ".gz" if packed else name)
    assert fields(written(path, gzip.compress(data) if packed else data)) == WANTED


def test_only_the_first_tab_of_a_plain_line_separates(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b'0\ta\tb\n1\t\n0\t"never closed\n')
    assert fields(path) == [("0", b"a\tb"), ("1", b""), ("0", b'"never closed')]


def test_named_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"stars\treview\n5\tgood\n1\t\xff\n")
    rows = list(Labelled(str(path), None, "review", "stars").rows())
    assert rows == [Row("5", b"good", 2), Row("1", b"\xff", 3)]


def test_a_field_that_holds_newlines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b'text,label\n"one\ntwo",0\nthree,1\n')
    assert list(Labelled(str(path)).rows()) == [Row("0", b"one\ntwo", 2), Row("1", b"three", 4)]


def test_plain_can_be_forced(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"label\ttext\n")
    assert list(Labelled(str(path), "plain").rows()) == [Row("label", b"text", 1)]


def test_parquet_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", b"PAR1")
    with pytest.raises(
        UsageError, match="are read from plain lines, tsv, csv and jsonl, not from Parquet; convert"
    ):
        Labelled(str(path))
