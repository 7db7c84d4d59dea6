"""Training the networks of a model: one that some rows are held out from, then others with all rows.

The first decides the epochs and the temperature, and says how good such a network is on rows that it
never saw. The others learn from every row for as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accel_cli.batches import Doubles, Floats
from accel_cli.evaluation import Tally
from accel_cli.train.base import Base
from accel_cli.train.calibration import temperature
from accel_cli.train.fit import Epoch, Fitted, Settings, fit
from accel_cli.train.network import Shape, initial
from accel_cli.train.rows import Rows

if TYPE_CHECKING:
    from accel_cli.train.network import Parameters

RARE = 0.5  # how far the loss makes up for rare labels: 0 not at all, 1 wholly
SPREAD = 0.02  # the deviation of an embedding at the beginning: noise of rare words would win maxima


class Parts(NamedTuple):
    """All rows that may be learned from, those that the first network learns from, those held out."""

    every: Rows
    learned: Rows
    held: Rows


@dataclass(frozen=True)
class Watcher:
    """Who hears of the progress: lines, the share of all steps done, and epochs."""

    say: Callable[[str], None]
    tell: Callable[[float], None]
    report: Callable[[Epoch], None]


@dataclass(frozen=True)
class Trained:
    """The calibrated networks, how the first does on the rows held out, and its epochs."""

    members: list[dict[str, Floats]]
    tally: Tally
    epochs: list[Epoch]


def train_networks(
    shape: Shape,
    base: Base | None,
    parts: Parts,
    labels: Sequence[str],
    settings: Settings,
    count: int,
    device: str,
    watcher: Watcher,
) -> Trained:
    """Train `count` networks one after the other."""
    counts = np.bincount(parts.every.labels, minlength=shape.labels)
    shares = np.maximum(counts, 0.5) / counts.sum()
    weights = (shares**-RARE / (shares ** (1 - RARE)).sum()).astype(np.float32)

    def run(number: int, rows: Rows, held: Rows | None, settings: Settings) -> Fitted:
        seed = settings.seed + 1000 * number
        start = _start(shape, base, seed, (shares * weights).astype(np.float32))

        def tell(progress: float) -> None:
            watcher.tell((number + progress) / count)

        return fit(
            shape, start, rows, held, weights, replace(settings, seed=seed), device, tell, watcher.report
        )

    first = run(0, parts.learned, parts.held, settings)
    best = max((epoch.number for epoch in first.epochs if epoch.best), default=1)
    fitted = [first]
    for number in range(1, count):
        watcher.say(f"network {number + 1} of {count}, from all {len(parts.every.labels)} rows")
        fitted.append(run(number, parts.every, None, replace(settings, epochs=best)))
    # the weights made rare labels count for more; scores are to be those of the file's own shares
    correction = np.log(weights)
    found = first.held_logits - correction
    heat = temperature(found, parts.held.labels)
    members = [_calibrated(network.tensors, correction, heat) for network in fitted]
    return Trained(members, _tally(labels, parts.held, found / heat), first.epochs)


def _start(shape: Shape, base: Base | None, seed: int, frequencies: Floats) -> Parameters:
    import torch

    embedding = np.random.default_rng(seed).normal(0, SPREAD, (shape.words, shape.dimension))
    if base is not None:
        embedding[: len(base.words)] = SPREAD * base.projection(shape.dimension)
    torch.manual_seed(seed)
    return initial(shape, embedding.astype(np.float32), frequencies)


def _calibrated(tensors: dict[str, Floats], correction: Floats, heat: float) -> dict[str, Floats]:
    return tensors | {
        "head.weight": (tensors["head.weight"] / heat).astype(np.float32),
        "head.bias": ((tensors["head.bias"] - correction) / heat).astype(np.float32),
    }


def _tally(labels: Sequence[str], held: Rows, found: Doubles) -> Tally:
    """What logits [rows, labels] are worth."""
    scores = np.exp(found - found.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    tally = Tally(labels)
    tally.add(held.labels, scores.astype(np.float32))
    return tally
