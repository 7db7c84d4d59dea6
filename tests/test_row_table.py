"""Rows from ready pieces are the formatter's own, for every label and score."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.batches import Predictions
from accel_cli.text.chunks import TextChunk
from accel_cli.text.row_table import RowTable, row_table
from accel_cli.text.rows import FORMATS, TextFormatter

LABELS = ("negative", 'so, "so"', "a\tb\\", "0.1", "ünï\n")
FIELDS = (["label", "score"], ["score", "label"], ["label"], ["score"])


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("fields", FIELDS, ids=",".join)
def test_every_score_of_every_label(layout: str, fields: list[str]) -> None:
    formatter = TextFormatter(layout, fields, LABELS)
    table = row_table(formatter, len(LABELS))
    assert table is not None
    assert len(table.scores) == 10_001
    points = np.arange(0, 10_001, 97)
    for label in range(len(LABELS)):
        scores = (points / 1e4).astype(np.float32)[:, None]
        found = Predictions(scores, scores, np.full(len(points), label, np.int32))
        rows = b"".join(table.before[label] + table.scores[point] + table.after[label] for point in points)
        assert rows == formatter.rows(TextChunk([], 1), found)
    assert table.longest == max(len(b + a) for b, a in zip(table.before, table.after, strict=True)) + max(
        map(len, table.scores)
    )


@pytest.mark.parametrize("layout", FORMATS)
def test_other_fields_have_no_table(layout: str) -> None:
    for fields in (["text", "label"], ["scores"], ["label", "score", "logits"], ["score", "label", "score"]):
        assert row_table(TextFormatter(layout, fields, LABELS), len(LABELS)) is None


halves = st.integers(0, 1 << 24).map(lambda whole: whole / (1 << 24))  # dyadic: ties are among them


@pytest.fixture(scope="module", params=["tsv", "jsonl"])
def formatter(request: pytest.FixtureRequest) -> TextFormatter:
    return TextFormatter(request.param, ["score"], LABELS)


@pytest.fixture(scope="module")
def table(formatter: TextFormatter) -> RowTable:
    made = row_table(formatter, len(LABELS))
    assert made is not None
    return made


@settings(max_examples=30)
@given(st.lists(st.one_of(st.floats(0, 1, width=32), halves), min_size=1))
def test_scores_are_rounded_half_to_even_like_ten_thousandths(
    formatter: TextFormatter, table: RowTable, values: list[float]
) -> None:
    scores = np.array(values, np.float32)
    found = Predictions(scores[:, None], scores[:, None], np.zeros(len(scores), np.int32))
    points = np.rint(scores.astype(np.float64) * 1e4).astype(int)
    rows = b"".join(table.before[0] + table.scores[point] + table.after[0] for point in points)
    assert rows == formatter.rows(TextChunk([], 1), found)


def test_ties() -> None:
    scores = np.array([[0.03125], [0.09375], [0.00009999]], np.float32)
    found = Predictions(scores, scores, np.zeros(3, np.int32))
    rows = TextFormatter("tsv", ["score"], LABELS).rows(TextChunk([], 1), found)
    assert rows == b"0.0312\n0.0938\n0.0001\n"
