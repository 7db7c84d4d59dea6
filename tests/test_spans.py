"""Spans: however an input is cut, its records are the same, each of them once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from records import DIMENSIONS, texts, write

from accel_cli.errors import InputError
from accel_cli.text import spans as module
from accel_cli.text.chunks import TextChunk
from accel_cli.text.readers import Source
from accel_cli.text.span import Span
from accel_cli.text.spans import spans


def cut(path: Path, size: int) -> list[bytes]:
    """The records of all spans, one span after the other."""
    return [text for span in spans(Source(str(path)), size) for text in of_span(path, span)]


def of_span(path: Path, span: Span | None, rows: int = 3) -> list[bytes]:
    found: list[bytes] = []
    for chunk in Source(str(path), span=span).chunks(rows, DIMENSIONS):
        assert isinstance(chunk, TextChunk)
        found += chunk.texts
    return found


pieces = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r",
        b"a",
        b"word " * 9,
        b"\0\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xf0\x9f\x98\x80",
        b"\x85",
    ]
)


@settings(max_examples=150)
@given(st.lists(pieces, max_size=30).map(b"".join), st.integers(1, 60), st.integers(1, 9))
@example(b"", 1, 1)
@example(b"\xef\xbb\xbf", 1, 1)
@example(b"\xef\xbb\xbfa\n\xef\xbb\xbfb", 5, 1)  # a mark that is none, as it does not begin the file
@example(b"abc\r\nd", 4, 1)  # the border between a carriage return and its newline
@example(b"abc\nd\n", 4, 1)  # the border just behind a newline
def test_spans_hold_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int, block: int
) -> None:
    path = write(tmp_path_factory.getbasetemp(), "spans.txt", data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        found = spans(Source(str(path)), size)
    assert [text for span in found for text in of_span(path, span)] == texts(path)
    edges = [(span.start, span.stop) for span in found if span is not None]
    borders = [0, *(stop for _, stop in edges)]
    assert [start for start, _ in edges] == borders[:-1]
    assert borders[-1] == len(data)
    assert all(stop - start >= size for start, stop in edges[:-1])
    assert all(stop > start for start, stop in edges)


@settings(max_examples=30)
@given(st.lists(st.text(max_size=20), max_size=20), st.integers(1, 100))
def test_spans_of_jsonl(tmp_path_factory: pytest.TempPathFactory, records: list[str], size: int) -> None:
    content = "".join(json.dumps({"text": text}) + "\n" for text in records)
    path = write(tmp_path_factory.getbasetemp(), "spans.jsonl", content)
    assert cut(path, size) == texts(path)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt.gz", "a.jsonl.gz"])
def test_what_cannot_be_cut_is_read_as_a_whole(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, b"text\n" * 100)
    assert spans(Source(str(path)), 10) == [None]


def test_pipes_and_arrays_are_read_as_a_whole(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("-", tmp_path / "pipe", write(tmp_path, "a.npy", b"x" * 100)):
        assert spans(Source(str(path)), 10) == [None]


def test_what_says_that_it_is_empty_is_read_as_a_whole(tmp_path: Path) -> None:
    assert spans(Source(str(write(tmp_path, "a.txt", b""))), 10) == [None]


def test_a_border_costs_a_little_reading(tmp_path: Path) -> None:
    read: list[int] = []
    data = b"short line\n" * 100_000

    def range_of(start: int, stop: int) -> bytes:
        read.append(stop - start)
        return data[start:stop]

    found = list(module._cut_at_lines(range_of, len(data), 100_000))
    assert len(read) == len(found) - 1 == 10
    assert max(read) == 64 << 10


def test_a_long_line_is_read_once_in_search_of_its_end() -> None:
    read = 0
    data = b"x" * 1_000_000 + b"\nend"

    def range_of(start: int, stop: int) -> bytes:
        nonlocal read
        read += stop - start
        return data[start:stop]

    assert list(module._cut_at_lines(range_of, len(data), 100)) == [
        Span(0, 1_000_001),
        Span(1_000_001, 1_000_004),
    ]
    assert read <= len(data) + 1


def test_row_groups_are_gathered_up_to_the_size() -> None:
    def gathered(*sizes: int) -> list[tuple[int, int]]:
        return [(span.start, span.stop) for span in module._gathered(list(sizes), 10)]

    assert gathered() == [(0, 0)]
    assert gathered(3) == [(0, 1)]
    assert gathered(30, 30) == [(0, 1), (1, 2)]
    assert gathered(5, 5, 1, 9, 11, 1) == [(0, 2), (2, 4), (4, 5), (5, 6)]


def test_a_record_is_named_by_its_place_in_the_span(tmp_path: Path) -> None:
    path = str(write(tmp_path, "a.txt", "a\nb\nc\n"))
    assert Source(path).at(2) == f"{path}:2"
    assert Source(path, span=Span(0, 4)).at(2) == f"{path}:2"
    assert Source(path, span=Span(2, 6)).at(2) == f"{path}, bytes 2 to 5, line 2 there"


def test_a_broken_record_of_a_span(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": 1}\n')
    [chunk] = Source(str(path), span=Span(14, 26)).chunks(10, DIMENSIONS)
    assert isinstance(chunk, TextChunk)
    assert chunk.failed == {0: f"{path}, bytes 14 to 25, line 1 there: 'text' is int, not a string"}


def test_progress_of_a_span(tmp_path: Path) -> None:
    source = Source(str(write(tmp_path, "a.txt", "a\nb\nc\n")), span=Span(2, 4))
    assert source.size == 2
    assert [text for chunk in source.chunks(10, DIMENSIONS) for text in chunk.texts] == [b"b"]  # type: ignore[union-attr]
    assert source.done == 2


def test_a_file_that_lost_its_end_meanwhile(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "a\nb\n")
    with pytest.raises(
        InputError, match=r"a\.txt ends 6 bytes too early: it was cut while it was read; run again"
    ):
        of_span(path, Span(0, 10))
