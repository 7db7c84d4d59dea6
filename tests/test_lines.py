"""Cutting a byte stream into lines: the same lines whatever pieces it arrives in, in bounded memory."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accel_cli.errors import InputError
from accel_cli.text import lines as module
from accel_cli.text.lines import cut, line_chunks


class Pieces(io.RawIOBase):
    """A stream that gives the pieces one by one."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def lines(*pieces: bytes, rows: int = 1 << 20, limit: int = 1 << 20) -> list[bytes]:
    return [line for chunk in line_chunks(Pieces(pieces), rows, "x", limit) for line in chunk]  # type: ignore[arg-type]


def expected(data: bytes, limit: int) -> list[bytes]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    found = data.split(b"\n")
    if not found[-1]:
        found.pop()
    return [cut(line.removesuffix(b"\r"), limit) for line in found]


# no NUL bytes: whether a file is UTF-16 without a mark is guessed from the first read alone
content = st.lists(
    st.sampled_from(
        [b"\n", b"\r", b"\r\n", b"a", b"bcd", b"\xe2\x80\x94", b"\xf0\x9f\x98\x80", b"\xc3", b"\x85"]
    )
).map(b"".join)
marked = st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef", b"\xef\xbb"]), content).map(b"".join)


@settings(max_examples=200)
@given(marked, st.lists(st.integers(0, 60)), st.integers(1, 9), st.integers(1, 9))
@example(b"aaaa\xe2\x80\x94b", [5], 1, 5)  # what is cut off must not be continued by the next read
@example(b"abc\r\n", [4], 1, 3)
@example(b"abc\rd\n", [4], 1, 3)
def test_any_pieces_give_the_same_lines(data: bytes, cuts: list[int], rows: int, limit: int) -> None:
    edges = sorted({0, *(min(edge, len(data)) for edge in cuts), len(data)})
    pieces = [data[start:stop] for start, stop in itertools.pairwise(edges)]
    chunks = list(line_chunks(Pieces(pieces), rows, "x", limit))  # type: ignore[arg-type]
    assert [line for chunk in chunks for line in chunk] == expected(data, limit)
    assert all(0 < len(chunk) <= rows for chunk in chunks)
    assert all(len(chunk) == rows for chunk in chunks[:-1])


@settings(max_examples=150)
@given(st.text(min_size=1), st.integers(0, 40))
def test_cut_keeps_whole_characters_and_as_many_as_fit(text: str, limit: int) -> None:
    line = text.encode("utf-8", "ignore")
    kept = cut(line, limit)
    kept.decode()
    assert line.startswith(kept)
    assert len(line) <= limit or limit - 3 <= len(kept) <= limit


@given(st.binary(), st.integers(0, 20))
def test_cut_of_any_bytes_is_a_prefix(line: bytes, limit: int) -> None:
    kept = cut(line, limit)
    assert line.startswith(kept)
    assert min(len(line), limit) - 3 <= len(kept) <= limit


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\r", [b""]),
        (b"\n\n\na", [b"", b"", b"", b"a"]),
        (
            "a\u0085b\u2028c\u2029d\x0ce\x0bf\x1cg\x1dh\x1ei\n".encode(),
            ["a\u0085b\u2028c\u2029d\x0ce\x0bf\x1cg\x1dh\x1ei".encode()],
        ),
        (b"a\x00b\n\x00\x00\x00\x00\x00\x00\x00\x00\n", [b"a\x00b", b"\x00" * 8]),
        (b"\x00" * 2000, [b"\x00" * 2000]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xff\n", [b"\xff"]),
    ],
)
def test_what_ends_a_line(data: bytes, found: list[bytes]) -> None:
    assert lines(data) == found


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_utf16_is_refused(codec: str) -> None:
    data = "A fine film, all in all.\n".encode(codec)
    with pytest.raises(InputError, match=r"x is UTF-16; accel reads UTF-8: convert it with `iconv"):
        lines(data)
    if codec == "utf-16":  # its mark may come byte by byte
        with pytest.raises(InputError, match="UTF-16"):
            lines(data[:1], data[1:])


def test_small_batches_of_a_large_block_take_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slicing the lines that wait again for every list would hang here."""
    assert sum(len(chunk) for chunk in line_chunks(io.BytesIO(b"\n" * 400_000), 1, "x")) == 400_000


def test_much_text_is_given_before_the_list_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 100)
    pieces = [b"x" * 59 + b"\n"] * 4
    chunks = list(line_chunks(Pieces(pieces), 1000, "x"))  # type: ignore[arg-type]
    assert [len(chunk) for chunk in chunks] == [2, 2]


def test_an_idle_pipe_gives_what_it_has() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as feed:
        chunks = line_chunks(stream, 1000, "x")
        feed.write(b"a\nb\nhalf ")
        assert next(chunks) == [b"a", b"b"]
        feed.write(b"and half\n")
        assert next(chunks) == [b"half and half"]
        feed.write(b"end")
        feed.close()
        assert list(chunks) == [[b"end"]]


def test_a_pipe_that_is_fed_in_the_middle_of_characters() -> None:
    reading, writing = os.pipe()
    data = "\ufeffgut – schlecht 😀\n".encode() * 200

    def feed() -> None:
        with open(writing, "wb", buffering=0) as stream:
            for start in range(0, len(data), 7):
                stream.write(data[start : start + 7])

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(reading, "rb", buffering=0) as stream:
        found = [line for chunk in line_chunks(stream, 10, "x") for line in chunk]
    feeder.join()
    assert b"\n".join([*found, b""]) == data.removeprefix("\ufeff".encode())


PROBE = """
import resource, sys
from accel_cli.text.lines import line_chunks
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
with open(sys.argv[1], "rb", buffering=0) as stream:
    before = peak()
    found = [line for chunk in line_chunks(stream, 4096, "x") for line in chunk]
print(len(found), max(map(len, found)), peak() - before)
"""


def test_a_line_of_100_megabytes_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.seek(100_000_000, os.SEEK_CUR)  # a hole: NUL bytes without a newline
        file.write(b"\nlast\n")
    probe = [sys.executable, "-c", PROBE, str(path)]
    result = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    count, longest, megabytes = map(int, result.stdout.split())
    assert (count, longest) == (3, module.LINE_LIMIT)
    assert megabytes < 20
