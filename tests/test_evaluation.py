"""The figures of an evaluation by hand, and as a dumb program counts them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.evaluation import BINS, Tally, known_labels
from accel_cli.text.labelled import Row

LABELS = ("no", "yes", "maybe")


def scores(*rows: tuple[float, float, float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def tally() -> Tally:
    """Truths no, no, yes, maybe; predictions no, yes, yes, no."""
    found = Tally(LABELS, worst=5)
    rows = [Row("", b"text %d" % number, number) for number in range(1, 5)]
    values = scores((0.75, 0.15, 0.1), (0.1, 0.8, 0.1), (0.2, 0.6, 0.2), (0.9, 0.05, 0.05))
    found.add(np.array([0, 0, 1, 2]), values, rows, "f")
    return found


def test_confusion_and_accuracy_by_hand() -> None:
    assert tally().confusion.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert tally().rows == 4
    assert tally().accuracy == 0.5


def test_precision_recall_and_f1_by_hand() -> None:
    no, yes, maybe = tally().by_label()
    assert (no.rows, no.predicted, no.precision, no.recall, no.f1) == (2, 2, 0.5, 0.5, 0.5)
    assert (yes.precision, yes.recall, yes.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    assert (maybe.precision, maybe.recall, maybe.f1) == (0.0, 0.0, 0.0)
    assert tally().macro_f1 == pytest.approx((0.5 + 2 / 3 + 0) / 3)


def test_labels_that_never_occur_leave_macro_f1_alone() -> None:
    found = Tally(LABELS)
    found.add(np.array([0, 1]), scores((0.9, 0.1, 0), (0.1, 0.9, 0)))
    assert found.macro_f1 == 1.0


def test_calibration_error_by_hand() -> None:
    # bins: 0.75 alone and right, 0.8 alone and wrong, 0.6 alone and right, 0.9 alone and wrong
    assert tally().calibration_error == pytest.approx((0.25 + 0.8 + 0.4 + 0.9) / 4)
    low = tally().bins()[0]
    assert (low.low, low.high, low.rows, low.accuracy) == (9 / 15, 10 / 15, 1, 1.0)
    assert low.score == pytest.approx(0.6)


def test_a_score_of_one_belongs_to_the_last_bin() -> None:
    found = Tally(LABELS)
    found.add(np.array([0]), scores((1.0, 0.0, 0.0)))
    assert [(entry.high, entry.rows) for entry in found.bins()] == [(1.0, 1)]
    assert found.calibration_error == 0.0


def test_the_worst_rows_first_by_the_score_of_the_true_label() -> None:
    worst = tally().worst()
    assert [(m.truth, m.predicted, m.place) for m in worst] == [
        ("maybe", "no", "f:4"),
        ("no", "yes", "f:2"),
    ]
    assert worst[0].text == "text 4"
    assert worst[0].score == pytest.approx(0.9)
    assert worst[0].true_score == pytest.approx(0.05)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(1, 20), min_size=3, max_size=3)), max_size=40),
    st.integers(1, 7),
    st.integers(0, 4),
)
def test_any_rows_in_any_batches_as_a_dumb_program_counts(
    rows: list[tuple[int, list[int]]], size: int, keep: int
) -> None:
    truths = [truth for truth, _ in rows]
    values = [[float(np.float32(value / sum(row))) for value in row] for _, row in rows]
    guesses = [row.index(max(row)) for row in values]
    found = Tally(LABELS, keep)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        numbered = [Row("", b"", number) for number in range(len(rows))[part]]
        found.add(np.array(truths[part]), np.array(values[part], dtype=np.float32), numbered, "f")
    right = [truth == guess for truth, guess in zip(truths, guesses, strict=True)]
    assert found.accuracy == pytest.approx(sum(right) / len(rows) if rows else 0)
    for label, figures in enumerate(found.by_label()):
        both = sum(t == g == label for t, g in zip(truths, guesses, strict=True))
        either = truths.count(label) + guesses.count(label)
        assert figures.f1 == pytest.approx(2 * both / either if either else 0)
    error = 0.0
    for number in range(BINS):
        inside = [i for i, row in enumerate(values) if min(int(max(row) * BINS), BINS - 1) == number]
        error += abs(sum(max(values[i]) - right[i] for i in inside))
    assert found.calibration_error == pytest.approx(error / len(rows) if rows else 0, abs=1e-6)
    wrong = sorted((values[i][truths[i]], i) for i in range(len(rows)) if not right[i])
    assert [mistake.place for mistake in found.worst()] == [f"f:{i}" for _, i in wrong[:keep]]


def test_names_and_indices_are_labels_unless_names_are_numbers() -> None:
    assert known_labels(["no", "yes"]) == {"no": 0, "yes": 1, "0": 0, "1": 1}
    assert known_labels(["1", "0"]) == {"1": 0, "0": 1}
