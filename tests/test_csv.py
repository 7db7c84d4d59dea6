"""CSV and TSV as records, and what is wrong with them."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import chunks, failures, texts, write

from accel_cli.errors import InputError, UsageError
from accel_cli.text import lines, separated

_NUL_IN_CSV = pytest.mark.skipif(sys.version_info < (3, 11), reason="csv of Python 3.10 refuses NUL")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("text\na\nb\n", ["a", "b"]),
        ("id,text\r\n1,a\r\n2,b", ["a", "b"]),
        ("\ufeffid,text\n1,a\n", ["a"]),
        ("\ufefftext\na\n", ["a"]),
        ('text,x\n"a, ""b""",1\n', ['a, "b"']),
        ('text,x\n"a\nb\r\nc",1\nd,2\n', ["a\nb\nc", "d"]),
        ('text,x\n"a\n\n\nb",1\n', ["a\n\n\nb"]),
        ("text,x\n\na,1\n\n\nb,2\n\n", ["a", "b"]),
        ("\n\ntext,x\na,1\n", ["a"]),
        ("text,x\n,1\n", [""]),
        ('text\n""\n', [""]),
        ("text,text\na,b\n", ["a"]),
        ("x,text\n1,a,b,c\n", ["a"]),
        ("text\na\u2028b\u0085c\x0cd\n", ["a\u2028b\u0085c\x0cd"]),
        pytest.param("text\na\x00b\n", ["a\x00b"], marks=_NUL_IN_CSV),
        ("text\n", []),
    ],
)
def test_csv(tmp_path: Path, content: str, found: list[str]) -> None:
    path = write(tmp_path, "a.csv", content)
    for rows in (1, 2, 100):
        assert texts(path, rows=rows) == [text.encode() for text in found]
        assert failures(path) == []


def test_tsv(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", 'id\tsentence\n1\tgood, bad\n2\t"a\tb"\n')
    assert texts(path, "sentence") == [b"good, bad", b"a\tb"]


def test_csv_keeps_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    assert texts(write(tmp_path, "a.csv", b"text\na\xffb\n\xc3,\n")) == [b"a\xffb", b"\xc3"]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.text(alphabet='ab",\n\t é'), st.text(alphabet="x,"))), st.integers(1, 5))
def test_what_python_writes_as_csv_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, str]], rows: int
) -> None:
    for name, dialect in (("a.csv", "excel"), ("a.tsv", "excel-tab")):
        out = io.StringIO()
        csv.writer(out, dialect).writerows([("note", "text"), *((note, text) for text, note in records)])
        path = write(tmp_path_factory.getbasetemp(), name, out.getvalue())
        assert texts(path, rows=rows) == [text.encode() for text, _ in records]


def test_a_missing_column_lists_those_there_are(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "id,sentence,label\n1,a,0\n")
    with pytest.raises(InputError, match=r"a\.csv has no column 'txt'; its columns: id, sentence, label"):
        texts(path, "txt")
    with pytest.raises(UsageError, match=r"say with --column which of the columns id, sentence, label"):
        texts(path)
    assert texts(path, "sentence") == [b"a"]


def test_short_records_fail_by_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'id,text\n1,"a\nb"\n2\n\n3,c\n4\n')
    assert texts(path) == [b"a\nb", b"", b"c", b""]
    assert failures(path) == [
        f"{path}:4: the record has 1 fields, the column 'text' is number 2",
        f"{path}:7: the record has 1 fields, the column 'text' is number 2",
    ]


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        ('text,x\na,1\n"b,2\nc,3\nd,4\n', 3, "unexpected end of data"),
        ('text,x\na,1\n\n"b"c,2\n', 4, "',' expected after '\"'"),
        ("text\na\rb\n", 2, "new-line character seen in unquoted field"),
    ],
)
def test_csv_that_is_none(tmp_path: Path, content: str, line: int, reason: str) -> None:
    """Above all, a quote that is never closed does not swallow the rest of the file."""
    path = write(tmp_path, "a.csv", content)
    with pytest.raises(InputError) as failure:
        texts(path)
    assert f"{path}:{line}: not valid csv: {reason}" in str(failure.value)
    assert "double the quotes inside" in str(failure.value)


def test_a_line_without_an_end_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separated, "LIMIT", 1000)
    monkeypatch.setattr(lines, "BLOCK", 64)
    assert texts(write(tmp_path, "a.csv", f"text\n{'x' * 1000}\n")) == [b"x" * 1000]
    path = write(tmp_path, "a.csv", f"text\n{'x' * 900}\n{'x' * 5000}\n")
    with pytest.raises(InputError, match=r"a\.csv:3: the record that begins in this line is longer"):
        texts(path, rows=1)
    path = write(tmp_path, "b.csv", 'text\n"' + "xxxxxxxx\n" * 500)
    with pytest.raises(InputError, match=r"b\.csv:2: not valid csv: field larger than field limit \(1000\)"):
        texts(path)
    path = write(tmp_path, "c.csv", "text,x\n" + 'a,"\n",' * 500)  # of short lines and short fields
    with pytest.raises(InputError, match=r"c\.csv:2: the record that begins in this line is longer"):
        texts(path)


@settings(max_examples=150)
@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv"]))
def test_any_bytes_are_csv_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, kind: str
) -> None:
    path = write(tmp_path_factory.getbasetemp(), "fuzz", b"text\n" + data)
    with contextlib.suppress(InputError):
        texts(path, kind=kind)


def test_long_records_are_cut_and_come_in_short_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the memory that a chunk takes has a bound, whatever the number of its rows."""
    monkeypatch.setattr(separated, "LINE_LIMIT", 10)
    monkeypatch.setattr(separated, "CHUNK_BYTES", 30)
    path = write(tmp_path, "a.csv", "text\n" + f"{'x' * 50}\n" * 7 + f"{'é' * 8}\n{'x' * 9}é\n")
    found = chunks(path)
    assert [len(chunk) for chunk in found] == [3, 3, 3]
    assert [chunk.first for chunk in found] == [1, 4, 7]
    assert [text for chunk in found for text in chunk.texts] == [b"x" * 10] * 7 + ["é".encode() * 5, b"x" * 9]
