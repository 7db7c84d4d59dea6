"""Columns of texts on the device: as one piece, with the rows and counts that the host's words give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_engine import classifier_of, fake_texts

from accel_cli import classifier as classifiers
from accel_cli.classifier import Classifier
from accel_cli.errors import InputError
from accel_cli.pipeline import Pipeline, Summary
from accel_cli.text import parquet
from accel_cli.text.formatters import formatter_of
from accel_cli.text.joined import JoinedTexts
from accel_cli.text.readers import Source

arrow = pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.extras

KINDS = ["binary", "large_binary", "dictionary"]
TEXTS = [
    b"",
    b" ",
    b"good film",
    b"not\nbad\r",
    b"\r\n",
    b"it 's \x00\xff w5",
    b"\xc3",
    b"\xa9",
    b"the film " * 40,
]


@pytest.fixture(scope="module")
def made(tiny_path: Path) -> Iterator[Classifier]:
    """A classifier on a device that finds the words of any text, however short."""
    with fake_texts() as patch:
        patch.setattr(classifiers, "SHORT", 0)
        yield classifier_of(tiny_path)


def saved(folder: Path, texts: list[bytes | None], kind: str = "binary") -> str:
    column = arrow.array(texts, arrow.binary())
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(getattr(arrow, kind)())
    path = folder / "texts.parquet"
    pq.write_table(arrow.table({"text": column}), path, row_group_size=7)
    return str(path)


def run(
    made: Classifier, path: str, layout: str, fields: tuple[str, ...], on_error: str | None
) -> tuple[bytes, Summary | str]:
    """All rows, and what was counted or why it ended."""
    out: list[bytes] = []
    source = Source(path, column="text")
    pipeline = Pipeline(made, formatter_of(layout, fields, made.labels, [source]), out.append, on_error)
    try:
        summary: Summary | str = pipeline.run([source])
    except InputError as error:
        summary = str(error)
    else:
        pipeline.summary.seconds = 0
    return b"".join(out), summary


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("layout", "fields"), [("tsv", ("label", "score")), ("parquet", ("text", "label", "logits"))]
)
@given(
    st.lists(st.one_of(st.none(), st.sampled_from(TEXTS), st.binary(max_size=30)), max_size=20),
    st.sampled_from(["replace", "fail", None]),
    st.sampled_from([1 << 20, 40]),
)
@settings(max_examples=15)
def test_any_column(
    tmp_path_factory: pytest.TempPathFactory,
    made: Classifier,
    kind: str,
    layout: str,
    fields: tuple[str, ...],
    texts: list[bytes | None],
    on_error: str | None,
    limit: int,
) -> None:
    path = saved(tmp_path_factory.getbasetemp(), texts, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "LINE_LIMIT", limit)
        found = run(made, path, layout, fields, on_error)
        patch.setattr(made.engine, "text_reader", lambda tokenizer: None)
        assert found == run(made, path, layout, fields, on_error)


@given(st.lists(st.none() | st.binary(max_size=5), max_size=9), st.integers(0, 9), st.integers(0, 9))
@settings(max_examples=30)
def test_a_slice_of_a_column(texts: list[bytes | None], start: int, count: int) -> None:
    column = arrow.array([text or b"hidden" for text in texts], arrow.binary())
    valid = arrow.array([text is not None for text in texts], arrow.bool_()).buffers()[1]
    column = arrow.Array.from_buffers(arrow.binary(), len(texts), [valid, *column.buffers()[1:]])
    part = column.slice(min(start, len(texts)), count)
    found, nulls = parquet._texts(arrow, part)
    assert list(found) == [text or b"" for text in part.to_pylist()]
    assert nulls == [place for place, text in enumerate(part.to_pylist()) if text is None]


def test_no_text_becomes_an_object(tmp_path: Path, made: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a text was asked for")

    for name in ("__getitem__", "__iter__"):
        monkeypatch.setattr(JoinedTexts, name, fail)
    monkeypatch.setattr(made.tokenizer, "encode", fail)
    path = saved(tmp_path, [b"good film", None, b"not\nbad\r", b""] * 10)
    for layout in ("tsv", "parquet"):
        _, summary = run(made, path, layout, ("label",), "replace")
        assert isinstance(summary, Summary)
        assert (summary.sentences, summary.failed, summary.blank) == (40, 10, 10)
