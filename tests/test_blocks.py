"""Blocks of whole lines: the lines of text.lines, whatever the bytes, the memory and the way they come."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accel_cli.errors import InputError
from accel_cli.text.blocks import MARGIN, Blocks, FileBlocks, StreamBlocks
from accel_cli.text.lines import LINE_LIMIT, line_chunks
from accel_cli.text.readers import Source

PIECES = [b"\n", b"\r", b"\r\n", b"a", b"bcdefghi", b"\xe2\x80\x94", b"\xf0\x9f\x98\x80", b"\xc3", b"\n\n"]
content = st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)
marked = st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef", b"\xef\xbb"]), content).map(b"".join)


class Pieces(io.RawIOBase):
    """A stream that gives the pieces one by one."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, size: int) -> bytes:
        piece = self._pieces.pop(0) if self._pieces else b""
        if len(piece) > size:
            self._pieces.insert(0, piece[size:])
        return piece[:size]

    def readinto(self, buffer: memoryview) -> int:
        piece = self.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def lines_of(text: bytes) -> list[bytes]:
    """The lines of a block."""
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def texts(blocks: Blocks, size: int) -> Iterator[bytes]:
    memory = memoryview(bytearray(size))
    while (block := blocks.next(memory)) is not None:
        yield bytes(memory[: block.fill(memory)])


def wanted(data: bytes, limit: int) -> list[bytes]:
    return [line for chunk in line_chunks(io.BytesIO(data), 1 << 20, "x", limit) for line in chunk]


def found(blocks: Blocks, size: int) -> list[bytes]:
    every = list(texts(blocks, size))
    assert all(every)
    return [line for text in every for line in lines_of(text)]


def cut_at(data: bytes, edges: list[int]) -> list[bytes]:
    places = sorted({0, *(min(edge, len(data)) for edge in edges), len(data)})
    return [data[start:stop] for start, stop in itertools.pairwise(places)]


@settings(max_examples=100)
@given(marked, st.integers(4, 12), st.integers(1, 30), st.lists(st.integers(0, 90), max_size=9))
@example(b"abcd\r\n", 4, 1, [])
@example(b"abcd\re\n", 4, 1, [])
@example(b"aaaaaaaaaaaa\r\nb", 4, 1, [])
@example(b"aaaa\r\xe2\x80\x94\nb", 6, 1, [])  # cut back to the carriage return
def test_any_bytes_in_any_memory(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, limit: int, more: int, edges: list[int]
) -> None:
    size = limit + MARGIN + more
    path = tmp_path_factory.getbasetemp() / "blocks.txt"
    path.write_bytes(data)
    with path.open("rb") as file:
        blocks = FileBlocks(file.fileno(), 0, len(data), "x", limit)
        assert found(blocks, size) == wanted(data, limit)
    stream = Pieces(cut_at(data, edges))
    assert found(StreamBlocks(stream, "x", limit), size) == wanted(data, limit)  # type: ignore[arg-type]


@settings(max_examples=30)
@given(content, st.integers(0, 99), st.integers(20, 60))
def test_a_part_of_a_file_has_no_mark(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, before: int, size: int
) -> None:
    data = b"\xef\xbb\xbf" + data
    path = tmp_path_factory.getbasetemp() / "part.txt"
    path.write_bytes(b"x" * before + b"\n" + data)
    with path.open("rb") as file:
        blocks = FileBlocks(file.fileno(), before + 1, before + 1 + len(data), "x", 10)
        assert found(blocks, size) == wanted(b"\n" + data, 10)[1:]
    within = StreamBlocks(io.BytesIO(data), "x", 10, within=True)
    assert found(within, size) == wanted(b"\n" + data, 10)[1:]


def test_files_fill_their_blocks_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    lines = [b"%d" % number * (number % 7) for number in range(40_000)]
    path.write_bytes(b"\n".join(lines))
    memories = [memoryview(bytearray(30_000)) for _ in range(50)]
    with path.open("rb") as file:
        blocks = FileBlocks(file.fileno(), 0, path.stat().st_size, "x", 1000)
        cut = [block for memory in memories if (block := blocks.next(memory))]
        assert len(cut) > 3
        filled = [block.fill(memory) for block, memory in reversed([*zip(cut, memories, strict=False)])][::-1]
    kept = [bytes(memory[:size]) for memory, size in zip(memories, filled, strict=False)]
    assert b"".join(kept) == path.read_bytes()
    assert all(text.endswith(b"\n") for text in kept[:-1])


def test_lines_beyond_the_limit_and_beyond_the_memory(tmp_path: Path) -> None:
    data = b"\n".join(
        [b"short", b"\xe2\x80\x94" * LINE_LIMIT, b"x" * (LINE_LIMIT + 1) + b"\r", b"y" * LINE_LIMIT, b"end"]
    )
    path = tmp_path / "long.txt"
    path.write_bytes(data)
    size = LINE_LIMIT + MARGIN + 100
    with path.open("rb") as file:
        assert found(FileBlocks(file.fileno(), 0, len(data), "x"), size) == wanted(data, LINE_LIMIT)
    assert found(StreamBlocks(io.BytesIO(data), "x"), size) == wanted(data, LINE_LIMIT)


def test_packed_files(tmp_path: Path) -> None:
    data = b"one\r\ntwo\n" * 50_000 + b"end"
    (tmp_path / "in.txt.gz").write_bytes(gzip.compress(data))
    source = Source(str(tmp_path / "in.txt.gz"))
    with source.opened() as stream:
        assert found(StreamBlocks(stream, source.place, 1000), 70_001) == wanted(data, 1000)
    assert source.done == source.size


def test_a_pipe_that_pauses_gives_what_it_has() -> None:
    reading, writing = os.pipe()
    memory = memoryview(bytearray(100))
    with open(reading, "rb", buffering=0) as stream, open(writing, "wb", buffering=0) as feed:
        feed.write(b"a\nb\nhalf ")
        blocks = StreamBlocks(stream, "x", 50)
        block = blocks.next(memory)
        assert block is not None
        assert block.short
        assert bytes(memory[: block.fill(memory)]) == b"a\nb\n"
        feed.write(b"and half\n")
        block = blocks.next(memory)
        assert block is not None
        assert bytes(memory[: block.fill(memory)]) == b"half and half\n"
        feed.write(b"end")
        feed.close()
        assert found(blocks, 100) == [b"end"]


def test_a_pipe_that_is_always_busy_gives_something_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accel_cli.text.blocks._PATIENCE", -1.0)
    blocks = StreamBlocks(Pieces([b"a\n", b"b\n", b"c"]), "x", 50)  # type: ignore[arg-type]
    assert list(texts(blocks, 100)) == [b"a\n", b"b\n", b"c"]


def test_a_pipe_fed_by_a_process_of_its_own_pace() -> None:
    reading, writing = os.pipe()
    data = "gut – schlecht 😀\r\n".encode() * 3000

    def feed() -> None:
        with open(writing, "wb", buffering=0) as stream:
            for start in range(0, len(data), 701):
                stream.write(data[start : start + 701])

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(reading, "rb", buffering=0) as stream:
        assert found(StreamBlocks(stream, "x", 50), 997) == wanted(data, 50)
    feeder.join()


def test_a_stream_is_not_read_behind_its_end() -> None:
    class Terminal(Pieces):
        ended = False

        def readinto(self, buffer: memoryview) -> int:
            assert not self.ended, "a terminal would wait for more"
            count = super().readinto(buffer)
            self.ended = not count
            return count

    assert found(StreamBlocks(Terminal([b"a\nb"]), "x", 50), 60) == [b"a", b"b"]  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["file", "stream"])
def test_utf16_is_refused(tmp_path: Path, way: str) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes("A fine film, all in all.\n".encode("utf-16"))
    with path.open("rb") as file, pytest.raises(InputError, match="x is UTF-16; accel reads UTF-8"):
        FileBlocks(file.fileno(), 0, 50, "x") if way == "file" else StreamBlocks(file, "x")


def test_a_file_that_shrinks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"a line\n" * 10)
    memory = memoryview(bytearray(100))
    with path.open("r+b") as file:
        block = FileBlocks(file.fileno(), 0, 70, str(path), 50).next(memory)
        file.truncate(30)
        assert block is not None
        with pytest.raises(InputError, match=r"in\.txt ends 40 bytes too early: it was cut"):
            block.fill(memory)


def test_a_memory_that_holds_no_line_is_refused() -> None:
    with pytest.raises(ValueError, match="12 bytes of memory for lines of 10; take 13"):
        StreamBlocks(io.BytesIO(b"a"), "x", 10).next(memoryview(bytearray(12)))
