"""What logits are worth, and the temperature that makes scores of them that mean what they say."""

from __future__ import annotations

import math

import numpy as np

from accel_cli.batches import Doubles, Floats
from accel_cli.train.examples import Indices

_STEPS = 40  # each of which narrows the search by 0.618


def quality(found: Doubles, labels: Indices, weights: Floats) -> tuple[float, float]:
    """The mean loss of logits, the labels' weights undone, and their accuracy."""
    corrected = found - np.log(weights)
    return loss_of(corrected, labels), float((corrected.argmax(axis=1) == labels).mean())


def loss_of(found: Doubles, labels: Indices) -> float:
    """The mean cross-entropy of logits."""
    top = found.max(axis=1)
    total = top + np.log(np.exp(found - top[:, None]).sum(axis=1))
    return float((total - found[np.arange(len(labels)), labels]).mean())


def temperature(found: Doubles, labels: Indices) -> float:
    """What to divide logits by so that their loss is least: golden section on the logarithm of 0.2 to 5."""
    low, high = math.log(0.2), math.log(5.0)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(_STEPS):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if loss_of(found / math.exp(left), labels) < loss_of(found / math.exp(right), labels):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)
