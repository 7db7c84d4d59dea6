"""The training of one network: batches of similar length, an average of the weights, an early end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Doubles, Floats
from accel_cli.text.vocabulary import PAD, UNKNOWN
from accel_cli.train.calibration import quality
from accel_cli.train.network import Shape, logits
from accel_cli.train.rows import Batch, Resident, Rows, batches
from accel_cli.train.steps import Steps

if TYPE_CHECKING:
    from accel_cli.train.network import Parameters

WARM_UP = 0.05  # of a training
AVERAGING = 0.995  # the share that the averaged weights keep at each step
JUDGED_AT_ONCE = 512


@dataclass(frozen=True)
class Settings:
    """How to train; `mixed` is the share of the rows of a batch that are mixed with another."""

    epochs: int
    batch: int
    rate: float
    seed: int
    seconds: float
    mixed: float
    patience: int  # epochs that brought nothing, after which the training ends
    word_dropout: float = 0.2
    feature_dropout: float = 0.5


@dataclass(frozen=True)
class Epoch:
    """How far the training is, and what the held-out rows say of the averaged weights."""

    number: int
    loss: float
    held_loss: float
    held_accuracy: float
    seconds: float
    best: bool


@dataclass(frozen=True)
class Fitted:
    """The averaged weights as arrays, the logits of the held-out rows, and how it went.

    With rows held out, the weights are those of the best epoch; without, of the last.
    """

    tensors: dict[str, Floats]
    held_logits: Doubles
    epochs: list[Epoch]


def fit(
    shape: Shape,
    parameters: Parameters,
    learned: Rows,
    held: Rows | None,
    weights: npt.NDArray[np.float32],
    settings: Settings,
    device: str,
    tell: Callable[[float], None] = lambda progress: None,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> Fitted:
    """Train; `weights` are those of the labels in the loss. `tell` hears the share done after each step."""
    training = _Training(shape, parameters, learned, weights, settings, device)
    history: list[Epoch] = []
    best, best_logits = training.arrays(), np.zeros((0, shape.labels))
    for number in range(1, settings.epochs + 1):
        loss = training.epoch(tell)
        if loss is None:
            break
        if held is None:
            continue
        found = training.judge(held)
        held_loss, accuracy = quality(found, held.labels, weights)
        better = all((accuracy, -held_loss) > (old.held_accuracy, -old.held_loss) for old in history)
        history.append(Epoch(number, loss, held_loss, accuracy, training.seconds, better))
        report(history[-1])
        if better:
            best, best_logits = training.arrays(), found
        if not any(entry.best for entry in history[-settings.patience :]):
            break
    return Fitted(best if history else training.arrays(), best_logits, history)


class _Training:
    """A network on its way, and the average of its weights."""

    def __init__(
        self,
        shape: Shape,
        parameters: Parameters,
        learned: Rows,
        weights: npt.NDArray[np.float32],
        settings: Settings,
        device: str,
    ) -> None:
        import torch

        torch.manual_seed(settings.seed + 1)
        self._rng = np.random.default_rng(settings.seed)
        self._shape, self._settings, self._device = shape, settings, device
        self._rows = self._resident(learned)
        self._parameters = {name: value.to(device).requires_grad_() for name, value in parameters.items()}
        self._average = {name: value.detach().clone() for name, value in self._parameters.items()}
        self._weights = torch.from_numpy(weights).to(device)
        self._steps = Steps(self._parameters)
        self._planned = max(1, settings.epochs * math.ceil(len(learned.labels) / settings.batch))
        self._step, self._begin = 0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begin

    def epoch(self, tell: Callable[[float], None]) -> float | None:
        """Learn from all rows once, or until the time is over; gives the mean loss, None without a step."""
        import torch
        from torch.nn import functional

        losses = []
        for rows in batches(self._rows.lengths, self._settings.batch, self._rng):
            progress = max(self._step / self._planned, self.seconds / self._settings.seconds)
            if progress >= 1:
                break
            batch = self._batch(rows)
            found = logits(self._shape, self._parameters, batch, self._settings.feature_dropout)
            loss = functional.cross_entropy(found, batch.labels, self._weights)
            self._steps.take(loss, batch.ids.numel(), self._settings.rate * schedule(progress))
            self._step += 1
            losses.append(float(loss.detach()))
            keep = min(AVERAGING, self._step / (self._step + 9))
            with torch.no_grad():
                torch._foreach_lerp_(list(self._average.values()), list(self._parameters.values()), 1 - keep)
            tell(progress)
        return sum(losses) / len(losses) if losses else None

    def judge(self, held: Rows) -> Doubles:
        """The averaged weights' logits of all rows, float64 [rows, labels]."""
        import torch

        rows = self._resident(held)
        order = np.argsort(rows.lengths, kind="stable")
        found = np.empty((len(order), self._shape.labels))
        with torch.no_grad():
            for start in range(0, len(order), JUDGED_AT_ONCE):
                some = order[start : start + JUDGED_AT_ONCE]
                outputs = logits(self._shape, self._average, rows.whole(some))
                found[some] = outputs.double().cpu().numpy()
        return found

    def arrays(self) -> dict[str, Floats]:
        """A copy of the averaged weights."""
        return {name: value.cpu().numpy().copy() for name, value in self._average.items()}

    def _resident(self, rows: Rows) -> Resident:
        return Resident(rows, self._shape.labels, max(self._shape.all_widths), self._device)

    def _batch(self, rows: npt.NDArray[np.int64]) -> Batch:
        """Rows to learn from: some mixed, words of all dropped."""
        import torch

        alone = self._rng.random(len(rows)) >= self._settings.mixed
        shares = np.where(alone, 1, self._rng.random(len(rows))).astype(np.float32)
        batch = self._rows.mixed(rows, self._rng.permutation(rows), shares)
        chance = torch.rand(batch.ids.shape, device=self._device)
        dropped = (chance < self._settings.word_dropout) & (batch.ids != PAD)
        return batch._replace(ids=torch.where(dropped, UNKNOWN, batch.ids))


def schedule(progress: float) -> float:
    """The learning rate's factor: a warm-up, then half a cosine down to nothing."""
    return min((progress + 1e-3) / WARM_UP, 0.5 * (1 + math.cos(math.pi * progress)))
