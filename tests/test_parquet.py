"""Parquet files as input: any column of strings, in bounded memory, and what is said of damaged ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from records import DIMENSIONS

from accel_cli.errors import InputError, UsageError
from accel_cli.text import parquet
from accel_cli.text.chunks import TextChunk
from accel_cli.text.readers import Source
from accel_cli.text.span import Span
from accel_cli.text.spans import spans

arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.extras

TYPES = ["string", "large_string", "string_view", "binary", "large_binary", "dictionary"]


def saved(folder: Path, columns: dict[str, Any], rows: int = 1000, **options: Any) -> str:
    path = folder / "a.parquet"
    pq.write_table(arrow.table(columns), path, row_group_size=rows, write_page_checksum=True, **options)
    return str(path)


def chunks(path: str, rows: int = 100, **options: Any) -> list[TextChunk]:
    found = list(Source(path, **options).chunks(rows, DIMENSIONS))
    assert all(isinstance(chunk, TextChunk) for chunk in found)
    return found  # type: ignore[return-value]


def texts(path: str, **options: Any) -> list[bytes]:
    return [text for chunk in chunks(path, **options) for text in chunk.texts]


def strings(kind: str, values: list[str | None]) -> Any:
    array = arrow.array(values, arrow.string())
    return array.dictionary_encode() if kind == "dictionary" else array.cast(getattr(arrow, kind)())


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=40)
@given(
    values=st.lists(st.none() | st.sampled_from(["", "a", "two words", "é 😀", "a\nb\0"]), max_size=40),
    group=st.integers(1, 9),
    rows=st.integers(1, 9),
)
def test_every_type_of_strings(
    tmp_path_factory: pytest.TempPathFactory, kind: str, values: list[str | None], group: int, rows: int
) -> None:
    path = saved(
        tmp_path_factory.getbasetemp(), {"id": range(len(values)), "text": strings(kind, values)}, group
    )
    found = chunks(path, rows, keep=["id"])
    assert [text for chunk in found for text in chunk.texts] == [(value or "").encode() for value in values]
    assert [id_ for chunk in found for id_ in chunk.kept["id"].to_pylist()] == list(range(len(values)))
    nulls = {chunk.first + place for chunk in found for place in chunk.failed}
    assert nulls == {number for number, value in enumerate(values, 1) if value is None}
    assert all(0 < len(chunk) <= rows for chunk in found)


@given(sizes=st.lists(st.integers(1, 5), max_size=8), size=st.integers(1, 2000))
@settings(max_examples=40)
def test_spans_hold_every_row_group_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], size: int
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "groups.parquet")
    table = arrow.table(
        {"text": [f"row {number}" for number in range(sum(sizes))]}, arrow.schema([("text", "string")])
    )
    with pq.ParquetWriter(path, table.schema) as writer:
        for number, rows in enumerate(sizes):
            writer.write_table(table.slice(sum(sizes[:number]), rows))
    found = spans(Source(path), size)
    assert [text for span in found for text in texts(path, span=span)] == texts(path)
    assert [span.stop for span in found if span][-1] == len(sizes)


def test_batches_go_across_row_groups(tmp_path: Path) -> None:
    path = saved(tmp_path, {"text": ["a"] * 1000}, rows=30)
    assert {len(chunk) for chunk in chunks(path, rows=200)} == {200}


def test_a_null_is_a_record_without_a_text(tmp_path: Path) -> None:
    path = saved(tmp_path, {"text": ["a", None, "b"]}, rows=2)
    [chunk] = chunks(path)
    assert chunk.failed == {1: f"{path}, record 2: 'text' is null, not a string"}
    [chunk] = chunks(path, span=Span(1, 2))
    assert Source(path, span=Span(1, 2)).at(1) == f"{path}, row groups 1 to 1, record 1 there"


def test_bytes_that_are_not_utf8_are_kept(tmp_path: Path) -> None:
    assert texts(saved(tmp_path, {"text": [b"\xff\xfe", b"a"]})) == [b"\xff\xfe", b"a"]


def test_long_texts_are_cut_as_lines_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "LINE_LIMIT", 4)
    assert texts(saved(tmp_path, {"text": ["abcdef", "ab–", "abc"]})) == [b"abcd", b"ab", b"abc"]


def test_no_rows(tmp_path: Path) -> None:
    path = saved(tmp_path, {"text": arrow.array([], arrow.string())})
    assert texts(path) == []
    assert spans(Source(path), 10) in ([Span(0, 0)], [Span(0, 1)])


def test_progress_counts_the_bytes_of_row_groups(tmp_path: Path) -> None:
    source = Source(
        saved(tmp_path, {"text": [f"row {i}" for i in range(1000)], "more": range(1000)}, rows=100)
    )
    sizes = source.row_groups()
    assert len(sizes) == 10
    seen = [source.done for _ in source.chunks(30, DIMENSIONS)]
    assert seen == sorted(seen)
    assert source.done == source.size == sum(sizes)
    part = Source(source.path, span=Span(2, 4))
    assert part.size == sum(sizes[2:4])


# Columns


def test_the_column_of_texts(tmp_path: Path) -> None:
    path = saved(tmp_path, {"id": [1], "body": ["a"], "a.b": ["dotted"]})
    assert texts(path, column="body") == [b"a"]
    assert texts(path, column="a.b") == [b"dotted"]
    with pytest.raises(
        UsageError, match=r"say with --column which of the columns id, body, a\.b to classify"
    ):
        texts(path)
    with pytest.raises(InputError, match=r"a\.parquet has no column 'text'; its columns: id, body, a\.b"):
        texts(path, column="text")


@pytest.mark.parametrize("values", [[1], [[1]], [{"text": "a"}], [["a"]], [1.5], [None]])
def test_a_column_of_something_else(tmp_path: Path, values: list[Any]) -> None:
    with pytest.raises(InputError, match=r"the column 'text' holds .+, no strings; name one of strings"):
        texts(saved(tmp_path, {"text": values}))


def test_columns_to_keep(tmp_path: Path) -> None:
    path = saved(tmp_path, {"id": [1, 2], "text": ["a", None], "list": [[1], []]})
    [chunk] = chunks(path, keep=["list", "text", "id"])
    assert chunk.kept.to_pydict() == {"list": [[1], []], "text": ["a", None], "id": [1, 2]}
    with pytest.raises(InputError, match=r"has no column 'ID'; its columns: id, text, list"):
        texts(path, keep=["ID"])


def test_a_name_that_stands_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(arrow.Table.from_arrays([arrow.array(["a"]), arrow.array(["b"])], ["text", "text"]), path)
    with pytest.raises(InputError, match="has several columns 'text'"):
        texts(path)


def test_files_that_cannot_be_parquet(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Parquet is read from files, not from stdin"):
        Source("-", "parquet")
    (tmp_path / "a.parquet.gz").write_bytes(b"x")
    with pytest.raises(
        InputError, match="Parquet files are read without unpacking; unpack it with gunzip first"
    ):
        Source(str(tmp_path / "a.parquet.gz"))


# Damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"no parquet",
        lambda data: b"PAR1PAR1PAR1",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data[4:],
        lambda data: data[:-8] + b"\xff\xff\xff\x7f" + data[-4:],
    ],
    ids=["empty", "foreign", "only marks", "cut by one", "cut in half", "no head", "huge footer"],
)
def test_damage_names_the_file(tmp_path: Path, damage: Any) -> None:
    path = Path(saved(tmp_path, {"text": [f"row {i}" for i in range(1000)]}))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        InputError, match=r"a\.parquet is not a whole Parquet file \(.+\); fetch or write it again"
    ):
        texts(str(path))


def test_a_byte_of_a_page_that_changed(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, {"text": [f"row {i}" for i in range(1000)]}, compression="none"))
    data = bytearray(path.read_bytes())
    data[data.index(b"row 500")] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet is not a whole Parquet file \(.*(CRC|checksum)"):
        texts(str(path))


def test_any_damage_is_an_error_of_ours_or_none(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, {"text": [f"row {i}" for i in range(200)]}, rows=50))
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for place in random.choice(len(whole), 300, replace=False).tolist():
        data = bytearray(whole)
        data[place] ^= 1 << int(random.integers(8))
        path.write_bytes(data)
        try:
            texts(str(path))
        except (InputError, UsageError) as error:
            assert "a.parquet" in str(error)  # noqa: PT017  what is raised depends on the place


PROBE = """
import resource, sys
from accel_cli.text.readers import Source
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
source = Source(sys.argv[1])
chunks = source.chunks(4096, (1, None))
count = len(next(chunks))
before = peak()
print(count + sum(map(len, chunks)), peak() - before)
"""


def test_a_huge_row_group_takes_little_memory(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    lines = [random.bytes(500).hex() for _ in range(1000)]
    path = saved(tmp_path, {"text": lines * 200}, rows=200_000, compression="none", use_dictionary=False)
    assert Path(path).stat().st_size > 190_000_000
    probe = [sys.executable, "-c", PROBE, path]
    result = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    count, megabytes = map(int, result.stdout.split())
    assert count == 200_000
    assert megabytes < 60
