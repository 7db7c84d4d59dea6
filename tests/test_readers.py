"""Inputs by their names, packed or not, from files and pipes, and what is wrong with them."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from records import DIMENSIONS, chunks, texts, write

from accel_cli.errors import InputError, UsageError
from accel_cli.text.files import Watched
from accel_cli.text.kinds import KINDS
from accel_cli.text.readers import Source
from accel_cli.text.span import Span

# Which reader


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.txt", "text"),
        ("a", "text"),
        ("a.log.gz", "text"),
        ("a.csv", "csv"),
        ("a.CSV", "csv"),
        ("a.tsv.gz", "tsv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("-", "text"),
    ],
)
def test_the_name_says_how_to_read(tmp_path: Path, name: str, kind: str) -> None:
    path = name if name == "-" else str(write(tmp_path, name, "x"))
    assert Source(path).kind == kind
    for asked in KINDS[:4]:
        assert Source(path, asked).kind == asked


def test_an_input_format_overrules_the_name(tmp_path: Path) -> None:
    assert texts(write(tmp_path, "a.csv", "a,b\nc\n"), kind="text") == [b"a,b", b"c"]
    assert texts(write(tmp_path, "a.npy", "a\n"), kind="text") == [b"a"]


def test_records_are_numbered_through_the_chunks(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "a\nb\nc\nd\ne")
    assert [(chunk.first, chunk.texts) for chunk in chunks(path, rows=2)] == [
        (1, [b"a", b"b"]),
        (3, [b"c", b"d"]),
        (5, [b"e"]),
    ]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.txt.gz", "a.csv.gz", "a.jsonl.gz"])
def test_an_empty_file_has_no_records(tmp_path: Path, name: str) -> None:
    assert texts(write(tmp_path, name, "")) == []
    (tmp_path / name).write_bytes(b"")
    assert texts(tmp_path / name) == []


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "text"])
def test_utf16_is_refused(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, "a", "text\ngood\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"is UTF-16; accel reads UTF-8: convert it with `iconv"):
        texts(path, kind=kind)


# Packed files


def test_gzip_of_several_members(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"a\nhalf ") + gzip.compress(b"and half\n") + gzip.compress(b"c"))
    assert texts(path) == [b"a", b"half and half", b"c"]


@pytest.mark.parametrize("kind", ["text", "csv", "jsonl"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"no gzip at all",
        lambda data: data[:-9],
        lambda data: data[:12],
        lambda data: data[:-8] + b"\x00\x00\x00\x00" + data[-4:],
        lambda data: data + b"garbage",
        lambda data: data[:20] + bytes(40) + data[60:],
    ],
    ids=["foreign", "cut", "header alone", "checksum", "garbage behind", "overwritten"],
)
def test_damaged_gzip(tmp_path: Path, kind: str, damage: object) -> None:
    path = tmp_path / "a.gz"
    data = gzip.compress(b"text\n" + b"".join(b"%d\n" % (i * i) for i in range(1000)))
    path.write_bytes(damage(data))  # type: ignore[operator]
    with pytest.raises(InputError, match=r"a\.gz is not a whole gzip file \(.+\); fetch or pack it again"):
        texts(path, "text" if kind == "csv" else None, kind)


# Paths


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"cannot read .*none\.txt: No such file or directory; check the name"
    ):
        Source(str(tmp_path / "none.txt"))


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="is a folder; name the files in it, each with an --input of its own"
    ):
        Source(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_the_right_to_read(tmp_path: Path) -> None:
    path = write(tmp_path, "secret.txt", "x")
    path.chmod(0)
    with pytest.raises(InputError, match=r"cannot read .*secret\.txt: Permission denied"):
        Source(str(path))


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_opens_but_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"cannot read /proc/self/mem: Input/output error"):
        texts(Path("/proc/self/mem"))


def test_names_that_cannot_be(tmp_path: Path) -> None:
    for name in ("x" * 300, "a/" * 3000, str(write(tmp_path, "file", "")) + "/below"):
        with pytest.raises(InputError, match="cannot read"):
            Source(name)


def test_arrays_are_files_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="read from files, not from stdin"):
        Source("-", "ids")
    with pytest.raises(InputError, match="arrays are read without unpacking; unpack it with gunzip first"):
        Source(str(write(tmp_path, "a.npy.gz", "x")))


@pytest.mark.parametrize("name", ["a.txt", "a.npy", "-"])
def test_a_column_of_what_has_none(tmp_path: Path, name: str) -> None:
    path = name if name == "-" else str(write(tmp_path, name, "x"))
    with pytest.raises(
        UsageError, match=r"--column has no meaning for .*it is for csv, tsv, jsonl and parquet"
    ):
        Source(path, None, "text")


def test_a_named_pipe_is_opened_once(tmp_path: Path) -> None:
    """Opening it to see whether that works, and closing it again, would end its writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    source = Source(str(path))
    feeder = threading.Thread(target=path.write_bytes, args=(b"a\nb\n",))
    feeder.start()
    found = [text for chunk in source.chunks(10, DIMENSIONS) for text in chunk.texts]  # type: ignore[union-attr]
    feeder.join()
    assert found == [b"a", b"b"]


def test_any_buffer_can_be_filled(tmp_path: Path) -> None:
    """Straight from the system into the caller's memory, which may be pinned."""
    source = Source(str(write(tmp_path, "a.txt", b"0123456789")), span=Span(2, 9))
    buffer = bytearray(b"." * 10)
    with source.opened() as stream:
        assert stream.readinto(memoryview(buffer)[1:5]) == 4  # type: ignore[attr-defined]
        assert stream.readinto(memoryview(buffer)[5:]) == 3  # type: ignore[attr-defined]
        assert stream.readinto(memoryview(buffer)) == 0  # type: ignore[attr-defined]
    assert bytes(buffer) == b".2345678.."
    assert source.done == 7


def test_only_plain_files_of_text_may_be_read_by_their_ranges(tmp_path: Path) -> None:
    path = str(write(tmp_path, "a.txt", "a\nb\n"))
    assert Source(path).plain == (0, 4)
    assert Source(path, span=Span(2, 4)).plain == (2, 4)
    os.mkfifo(tmp_path / "pipe")
    for other in ("a.jsonl", "a.csv", "a.txt.gz", "a.npy"):
        assert Source(str(write(tmp_path, other, "x"))).plain is None
    assert Source("-").plain is Source(str(tmp_path / "pipe")).plain is None


def test_a_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    source = Source(str(write(tmp_path, "a.txt", "a")))
    before = source.fingerprint()
    assert before == source.fingerprint() == {"size": 1, "mtime_ns": (tmp_path / "a.txt").stat().st_mtime_ns}
    write(tmp_path, "a.txt", "ab")
    assert source.fingerprint() != before
    assert Source("-").fingerprint() == {}


def test_columns_are_kept_of_parquet_alone(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--keep has no meaning for .*a\.csv, which is read as csv; it is for parquet"
    ):
        Source(str(write(tmp_path, "a.csv", "text,id\n")), keep=["id"])


def test_progress_counts_the_bytes_of_the_file(tmp_path: Path) -> None:
    for name in ("a.txt", "a.csv", "a.txt.gz"):
        source = Source(str(write(tmp_path, name, "text\na\nb\n" * 1000)))
        list(source.chunks(10, DIMENSIONS))
        assert source.done == source.size == (tmp_path / name).stat().st_size


@pytest.mark.parametrize(
    ("kind", "lines", "records"),
    [
        ("text", b"a\nb\n", [b"a", b"b"]),
        ("csv", b"text\na\n", [b"a"]),
        ("csv", b'text\na\n"b\nb"\n', [b"a", b"b\nb"]),
        ("jsonl", b'{"text": "a"}\n', [b"a"]),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_a_pipe_that_pauses_gives_what_it_has(
    kind: str, lines: bytes, records: list[bytes], rows: int
) -> None:
    reading, writing = os.pipe()
    with open(writing, "wb", buffering=0) as feed:
        source = Source(f"/dev/fd/{reading}", kind)
        found = source.chunks(rows, DIMENSIONS)
        feed.write(lines)
        got: list[bytes] = []
        while len(got) < len(records):  # hangs if a record is held back
            got += next(found).texts  # type: ignore[union-attr]
    os.close(reading)
    assert got == records


def test_a_pipe_that_does_not_block(tmp_path: Path) -> None:
    """Shells leave stdin so at times; "no bytes now" is not the end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def feed() -> None:
        with open(writing, "wb", buffering=0) as stream:
            for _ in range(3):
                stream.write(b"a\n")
                threading.Event().wait(0.02)

    feeder = threading.Thread(target=feed)
    with open(reading, "rb", buffering=0) as raw:
        watched = Watched(raw, [].append)
        feeder.start()
        data = b"".join(iter(lambda: watched.read1(100), b""))
    feeder.join()
    assert data == b"a\n" * 3


@pytest.mark.parametrize("content", [b"", b"good\n"], ids=["emptied", "cut"])
def test_a_file_that_is_cut_while_it_is_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nbad\n")
    with Source(str(path)).opened() as stream:
        assert stream.read1(6) == b"good\nb"
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.txt ends 3 bytes too early: it was cut while it was read"):
            stream.read1(6)


def test_a_file_that_grows_is_read_to_its_new_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n")
    with Source(str(path)).opened() as stream:
        assert stream.read1(100) == b"good\n"
        with path.open("ab") as more:
            more.write(b"bad\n")
        assert (stream.read1(100), stream.read1(100)) == (b"bad\n", b"")


def test_no_wait_for_input_is_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a signal that comes between Python's look for signals and the system's call would be lost."""
    reading, writing = os.pipe()
    waits: list[float] = []
    answers = iter([[], [], [reading], [reading]])

    def select(readers: list[Any], _: object, __: object, timeout: float) -> tuple[list[Any], list, list]:
        waits.append(timeout)
        return next(answers), [], []

    os.write(writing, b"good\n")
    os.close(writing)
    monkeypatch.setattr("accel_cli.text.files.select.select", select)
    with open(reading, "rb", buffering=0) as raw:
        stream = Watched(raw, [].append)
        assert (stream.read1(100), stream.read1(100)) == (b"good\n", b"")
    assert len(waits) == 4
    assert all(0 < wait <= 1 for wait in waits)
