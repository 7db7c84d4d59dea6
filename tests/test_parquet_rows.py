"""Parquet as output: what is kept, what is found, and one file of many."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import DIMENSIONS

from accel_cli.batches import Predictions
from accel_cli.errors import InputError, UsageError
from accel_cli.text import parquet_rows
from accel_cli.text.chunks import ArrayChunk, TextChunk
from accel_cli.text.parquet_merge import merged
from accel_cli.text.parquet_rows import ParquetFormatter, parquet_formatter
from accel_cli.text.readers import Source

arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.extras

LABELS = ("negative", "positive")


def found(count: int, seed: int = 1) -> Predictions:
    logits = np.random.default_rng(seed).normal(size=(count, 2)).astype(np.float32)
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return Predictions(logits, scores, logits.argmax(axis=1).astype(np.int32))


def file_of(formatter: ParquetFormatter, chunks: list[Any]) -> Any:
    """The table that the file of some chunks holds, each checksum verified."""
    pieces = [
        formatter.header(),
        *(formatter.rows(chunk, found(len(chunk))) for chunk in chunks),
        formatter.footer(),
    ]
    return pq.read_table(io.BytesIO(b"".join(pieces)), page_checksum_verification=True)


def saved(path: Path, columns: dict[str, Any], rows: int = 3) -> str:
    pq.write_table(arrow.table(columns), path, row_group_size=rows)
    return str(path)


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), st.booleans()), max_size=6)
    ),
    st.integers(1, 9),
)
def test_a_row_for_every_record(lists: list[list[tuple[str, bool]]], group: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_rows, "_GROUP_ROWS", group)
        chunks = [
            TextChunk(
                [text.encode() for text, _ in records],
                1,
                {i: "" for i, (_, bad) in enumerate(records) if bad},
            )
            for records in lists
        ]
        table = file_of(ParquetFormatter(("text", "label", "score"), LABELS), chunks)
    assert table["text"].to_pylist() == [text for records in lists for text, _ in records]
    bad = [bad for records in lists for _, bad in records]
    assert [label is None for label in table["label"].to_pylist()] == bad
    assert [score is None for score in table["score"].to_pylist()] == bad


def test_the_columns_of_the_fields() -> None:
    chunk = TextChunk([b"a", b"\xff", b"c"], 1, {1: "broken"})
    fields = ("label", "score", "scores", "logits", "text")
    table = file_of(ParquetFormatter(fields, LABELS), [chunk])
    names = [
        "label",
        "score",
        "scores.negative",
        "scores.positive",
        "logits.negative",
        "logits.positive",
        "text",
    ]
    assert table.schema.names == names
    assert table.schema.field("label").type == arrow.dictionary(arrow.int32(), arrow.string())
    assert {str(table.schema.field(name).type) for name in names[1:6]} == {"float"}
    wanted = found(3)
    assert table["label"].to_pylist() == [LABELS[wanted.labels[0]], None, LABELS[wanted.labels[2]]]
    assert np.array_equal(table["score"].to_numpy()[[0, 2]], wanted.scores.max(axis=1)[[0, 2]])
    assert np.array_equal(table["logits.positive"].to_numpy()[[0, 2]], wanted.logits[[0, 2], 1])
    assert table["scores.negative"].null_count == 1
    assert table["text"].to_pylist() == ["a", "\ufffd", "c"]


def test_arrays_have_rows_too() -> None:
    table = file_of(ParquetFormatter(("label",), LABELS), [ArrayChunk(np.zeros((3, 5)), 1, False)])
    assert table.num_rows == 3


def test_nothing_is_a_file_too() -> None:
    table = file_of(ParquetFormatter(("label", "score"), LABELS), [])
    assert (table.num_rows, table.schema.names) == (0, ["label", "score"])


def test_bytes_come_when_a_row_group_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_rows, "_GROUP_ROWS", 4)
    formatter = ParquetFormatter(("label",), LABELS)
    chunk = TextChunk([b"a"] * 3, 1)
    assert formatter.header() == b"PAR1"
    assert formatter.rows(chunk, found(3)) == b""
    assert formatter.rows(chunk, found(3)) != b""


def test_kept_columns_come_first_as_they_were(tmp_path: Path) -> None:
    columns = {
        "text": ["a", None, "c", "d"],
        "id": arrow.array([1, 2, None, 4], arrow.uint8()),
        "list": [[1], [], None, [2, 3]],
        "word": arrow.array(["x", "y", "x", None]).dictionary_encode(),
    }
    source = Source(saved(tmp_path / "a.parquet", columns), keep=["word", "list", "id"])
    formatter = parquet_formatter(("label",), LABELS, [source])
    table = file_of(formatter, list(source.chunks(2, DIMENSIONS)))
    assert table.schema.names == ["word", "list", "id", "label"]
    for name in source.keep:
        assert table[name].to_pylist() == arrow.table(columns)[name].to_pylist()
        assert table.schema.field(name).type == arrow.table(columns).schema.field(name).type
    assert table["label"].null_count == 1


def test_an_input_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    columns = {"text": arrow.array([], arrow.string()), "id": arrow.array([], arrow.int64())}
    source = Source(saved(tmp_path / "a.parquet", columns), keep=["id"])
    table = file_of(parquet_formatter(("label",), LABELS, [source]), list(source.chunks(2, DIMENSIONS)))
    assert table.schema.names == ["id", "label"]


def test_a_kept_column_with_the_name_of_a_field(tmp_path: Path) -> None:
    source = Source(saved(tmp_path / "a.parquet", {"text": ["a"], "label": ["b"]}), keep=["label"])
    with pytest.raises(
        UsageError, match=r"--keep label: another column of the output has that name; leave it out"
    ):
        parquet_formatter(("label",), LABELS, [source])


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    source = Source(saved(tmp_path / "a.parquet", {"text": ["a"]}), keep=["id"])
    with pytest.raises(InputError, match=r"a\.parquet has no column 'id'; its columns: text"):
        parquet_formatter(("label",), LABELS, [source])


def test_inputs_whose_columns_differ(tmp_path: Path) -> None:
    one = Source(saved(tmp_path / "a.parquet", {"text": ["a"], "id": [1]}), keep=["id"])
    other = Source(saved(tmp_path / "b.parquet", {"text": ["a"], "id": ["1"]}), keep=["id"])
    with pytest.raises(
        InputError, match=r"b\.parquet holds the columns to keep as id string, the inputs before it as"
    ):
        parquet_formatter(("label",), LABELS, [one, other])


# Merging


def test_parts_become_one_file(tmp_path: Path) -> None:
    word = arrow.array(["x", None, "y"]).dictionary_encode()
    parts = [
        saved(tmp_path / "1.parquet", {"id": [1, 2, 3], "word": word}, rows=2),
        saved(tmp_path / "2.parquet", {"id": arrow.array([], arrow.int64()), "word": word.slice(3)}),
        saved(tmp_path / "3.parquet", {"id": [4, 5, 6], "word": word.take(arrow.array([2, 2, 0]))}, rows=1),
    ]
    whole = b"".join(merged(parts))
    table = pq.read_table(io.BytesIO(whole), page_checksum_verification=True)
    assert table["id"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert table["word"].to_pylist() == ["x", None, "y", "y", "y", "x"]
    assert pq.ParquetFile(io.BytesIO(whole)).num_row_groups == 5 + (pq.ParquetFile(parts[1]).num_row_groups)


def test_no_parts_are_no_bytes() -> None:
    assert b"".join(merged([])) == b""


def test_parts_that_do_not_go_together(tmp_path: Path) -> None:
    one, other = saved(tmp_path / "1.parquet", {"id": [1]}), saved(tmp_path / "2.parquet", {"id": ["1"]})
    with pytest.raises(
        InputError, match=r"2\.parquet has other columns than .*1\.parquet; merge them by hand"
    ):
        b"".join(merged([one, other]))
    Path(other).write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"2\.parquet is not a whole Parquet file"):
        b"".join(merged([one, other]))
