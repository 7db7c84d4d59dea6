"""What is said of a model: accuracy, calibration, behaviours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ragged import Array

from accel_cli.model.reference import softmax

BINS = 15
TINY = 1e-12  # added to a probability before its logarithm
BEHAVIOURS = Path(__file__).parent / "behaviours.tsv"


def accuracy(logits: Array, labels: Array) -> float:
    """In %."""
    return round(100 * float((logits.argmax(axis=1) == labels).mean()), 2)


def distance(logits: Array, wanted: Array) -> float:
    """The mean divergence (Kullback and Leibler's) of the one's scores from the other's, in nats."""
    own, other = (softmax(values.astype(np.float64)) + TINY for values in (logits, wanted))
    return round(float((other * np.log(other / own)).sum(axis=1).mean()), 4)


def calibration_error(logits: Array, labels: Array) -> float:
    """The expected calibration error: |accuracy - confidence| over bins of confidence, weighed by size."""
    scores = softmax(logits.astype(np.float64))
    confidence, right = scores.max(axis=1), scores.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - confidence, BINS)
    return round(float(np.abs(gaps).sum() / len(labels)), 4)


def temperature(logits: Array, labels: Array) -> float:
    """The temperature at which the labels are most likely."""
    rows = np.arange(len(labels))

    def loss(value: float) -> float:
        scores: Array = softmax(logits.astype(np.float64) / value)
        return float(-np.log(scores[rows, labels] + TINY).mean())

    return min(np.geomspace(0.2, 10, 300).tolist(), key=loss)


def read_behaviours() -> tuple[list[str], Array, list[bytes]]:
    """The kinds, labels and texts of the behaviours."""
    rows = [line.split(b"\t", 2) for line in BEHAVIOURS.read_bytes().splitlines()]
    kinds, labels, texts = zip(*rows, strict=True)
    return [kind.decode() for kind in kinds], np.array(labels).astype(int), list(texts)


def passed(logits: Array, kinds: list[str], labels: Array) -> dict[str, list[int]]:
    """Of each kind of behaviour, how many are right and how many there are; "all" comes last."""
    right = logits.argmax(axis=1) == labels
    names = np.array(kinds)
    table = {kind: names == kind for kind in dict.fromkeys(kinds)}
    table["all"] = np.ones(len(kinds), bool)
    return {kind: [int(right[own].sum()), int(own.sum())] for kind, own in table.items()}
