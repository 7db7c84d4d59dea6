"""How right a model is on labelled texts: counts that grow by batches, and the figures drawn from them."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Doubles, Floats
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Ticket
from accel_cli.errors import InputError
from accel_cli.text.labelled import Labelled, Row

BINS = 15  # of equal width, by the score of the predicted label; 1 belongs to the last
_SHOWN = 500  # bytes kept of a text that was classified wrongly

Counts = npt.NDArray[np.int64]


class Mistake(NamedTuple):
    """A row classified wrongly: its true label's score, and its predicted label's."""

    true_score: float
    score: float
    truth: str
    predicted: str
    place: str
    text: str


class Bin(NamedTuple):
    """The rows whose score lies in [low, high): how many, their mean score and the share that is right."""

    low: float
    high: float
    rows: int
    score: float
    accuracy: float


@dataclass(frozen=True)
class LabelFigures:
    """One label against all others. What would be divided by nothing is 0."""

    label: str
    rows: int
    predicted: int
    precision: float
    recall: float
    f1: float


class Tally:
    """Counts of truths and predictions, of scores in bins, and the `worst` rows: of fixed size."""

    def __init__(self, labels: Sequence[str], worst: int = 0) -> None:
        self.labels = tuple(labels)
        self.confusion: Counts = np.zeros((len(labels), len(labels)), dtype=np.int64)  # [truth, predicted]
        self.seconds = 0.0
        self._bin_rows: Counts = np.zeros(BINS, dtype=np.int64)
        self._bin_right: Counts = np.zeros(BINS, dtype=np.int64)
        self._bin_scores: Doubles = np.zeros(BINS)
        self._keep = worst
        self._worst: list[tuple[float, int, Mistake]] = []  # a heap, the least wrong first

    @property
    def rows(self) -> int:
        """The rows counted."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """The share of rows whose prediction is right."""
        return _ratio(int(np.trace(self.confusion)), self.rows)

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the labels that occur or are predicted."""
        figures = [figure.f1 for figure in self.by_label() if figure.rows or figure.predicted]
        return _ratio(sum(figures), len(figures))

    @property
    def calibration_error(self) -> float:
        """The expected calibration error: the mean distance of score and accuracy of bins, by their rows."""
        return _ratio(float(np.abs(self._bin_scores - self._bin_right).sum()), self.rows)

    def add(self, truths: Counts, scores: Floats, rows: Sequence[Row] = (), place: str = "") -> None:
        """Count rows: the indices of their true labels, scores [n, labels], and where they come from."""
        predicted, top = scores.argmax(axis=1), scores.max(axis=1).astype(np.float64)
        count = len(self.labels)
        pairs = np.bincount(truths * count + predicted, minlength=count * count)
        self.confusion += pairs.reshape(count, count)
        bins = np.minimum((top * BINS).astype(np.int64), BINS - 1)
        right = predicted == truths
        self._bin_rows += np.bincount(bins, minlength=BINS)
        self._bin_right += np.bincount(bins[right], minlength=BINS)
        self._bin_scores += np.bincount(bins, weights=top, minlength=BINS)
        if self._keep and rows:
            self._remember(np.flatnonzero(~right), truths, scores, rows, place)

    def _remember(
        self, wrong: npt.NDArray[np.intp], truths: Counts, scores: Floats, rows: Sequence[Row], place: str
    ) -> None:
        """Keep the rows that are more wrong than those kept so far."""
        true_scores = scores[wrong, truths[wrong]]
        for index in wrong[np.argsort(true_scores, kind="stable")[: self._keep]].tolist():
            truth, predicted = int(truths[index]), int(scores[index].argmax())
            mistake = Mistake(
                float(scores[index, truth]),
                float(scores[index, predicted]),
                self.labels[truth],
                self.labels[predicted],
                f"{place}:{rows[index].line}",
                rows[index].text[:_SHOWN].decode("utf-8", "replace"),
            )
            number = self.rows - len(rows) + index  # among equals the first ones stay
            push = heapq.heappush if len(self._worst) < self._keep else heapq.heappushpop
            push(self._worst, (-mistake.true_score, -number, mistake))

    def worst(self) -> list[Mistake]:
        """The rows that were most wrong: the lowest score of the true label first."""
        return [mistake for *_, mistake in sorted(self._worst, reverse=True)]

    def by_label(self) -> list[LabelFigures]:
        """Precision, recall and F1 of every label."""
        found = []
        for index, label in enumerate(self.labels):
            right = int(self.confusion[index, index])
            rows, predicted = int(self.confusion[index].sum()), int(self.confusion[:, index].sum())
            precision, recall = _ratio(right, predicted), _ratio(right, rows)
            f1 = _ratio(2 * right, rows + predicted)
            found.append(LabelFigures(label, rows, predicted, precision, recall, f1))
        return found

    def bins(self) -> list[Bin]:
        """The bins that hold rows."""
        return [
            Bin(
                index / BINS,
                (index + 1) / BINS,
                int(self._bin_rows[index]),
                float(self._bin_scores[index] / self._bin_rows[index]),
                float(self._bin_right[index] / self._bin_rows[index]),
            )
            for index in np.flatnonzero(self._bin_rows).tolist()
        ]

    def as_json(self) -> dict[str, Any]:
        """All figures, as they are published."""
        rate = _ratio(self.rows, self.seconds)
        return {
            "rows": [
                {
                    "n": self.rows,
                    "accuracy": self.accuracy,
                    "macro_f1": self.macro_f1,
                    "calibration_error": self.calibration_error,
                    "seconds": self.seconds,
                    "sentences_per_s": rate,
                }
            ],
            "labels": [vars(figures) for figures in self.by_label()],
            "confusion": self.confusion.tolist(),
            "bins": [entry._asdict() for entry in self.bins()],
            "worst": [mistake._asdict() for mistake in self.worst()],
        }


class _Pending(NamedTuple):
    """A batch under way, and what its rows are."""

    ticket: Ticket
    truths: Counts
    rows: list[Row]
    place: str


def evaluate(
    classifier: Classifier,
    inputs: Iterable[Labelled],
    worst: int = 0,
    progress: Callable[[int], None] = lambda rows: None,
) -> Tally:
    """Classify labelled texts and count; `progress` is told the rows so far. Raises AccelError."""
    plan, known = classifier.plan, known_labels(classifier.labels)
    tally = Tally(classifier.labels, worst)
    pending: deque[_Pending] = deque()

    def finish(under_way: int) -> None:
        while len(pending) > under_way:
            done = pending.popleft()
            tally.add(done.truths, done.ticket.result().scores, done.rows, done.place)
            progress(tally.rows)

    begin = time.perf_counter()
    for source in inputs:
        for rows in source.chunks(plan.batch):
            truths = np.array([_index(source, row, known, classifier.labels) for row in rows], dtype=np.int64)
            ticket = classifier.submit(classifier.read([row.text for row in rows]))
            pending.append(_Pending(ticket, truths, rows, source.place))
            finish(plan.streams)
    finish(0)
    tally.seconds = time.perf_counter() - begin
    return tally


def known_labels(labels: Sequence[str]) -> dict[str, int]:
    """What a label may be called: its name or, unless some name is a whole number, its index."""
    names = {label: index for index, label in enumerate(labels)}
    if any(label.isdecimal() for label in labels):
        return names
    return {str(index): index for index in range(len(labels))} | names


def _index(source: Labelled, row: Row, known: dict[str, int], labels: Sequence[str]) -> int:
    try:
        return known[row.label]
    except KeyError:
        header = " if line 1 is a header, name its columns with --column and --label-column;"
        raise InputError(
            f"{source.at(row.line)}: unknown label {row.label[:60]!r};{header if row.line == 1 else ''}"
            f" the model has {', '.join(labels)}{' (or their indices from 0)' if '0' in known else ''}"
        ) from None


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
