"""The training: batches of similar length, AdamW, an average of the weights, and an early end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Doubles, TokenBatch
from accel_cli.text.vocabulary import PAD, UNKNOWN
from accel_cli.train.base import Half
from accel_cli.train.calibration import quality
from accel_cli.train.examples import Indices
from accel_cli.train.network import Dropout, Shape, logits

if TYPE_CHECKING:
    from accel_cli.train.network import Parameters

Array: TypeAlias = npt.NDArray[Any]

WARM_UP = 0.05  # of a training
SORTED = 32  # batches that are sorted by length together
AVERAGING = 0.995  # the share that the averaged weights keep at each step
JUDGED_AT_ONCE = 512


@dataclass(frozen=True)
class Settings:
    """How to train."""

    epochs: int
    batch: int
    rate: float
    seed: int
    seconds: float
    patience: int = 3
    decay: float = 0.01
    embedding_rate: float = 3.0  # the embedding's learning rate, as a multiple
    word_dropout: float = 0.2
    embedding_dropout: float = 0.2
    feature_dropout: float = 0.5


@dataclass(frozen=True)
class Rows:
    """Tokenised sentences, the base's features of them, and their labels."""

    batch: TokenBatch
    base: Half
    labels: Indices


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
    """The best averaged weights as arrays, the logits of the held-out rows, and how it went."""

    tensors: dict[str, npt.NDArray[np.float32]]
    held_logits: Doubles
    epochs: list[Epoch]


class _Resident:
    """Rows on a device, from which padded batches are gathered."""

    def __init__(self, rows: Rows, device: str) -> None:
        import torch

        self.lengths = rows.batch.lengths
        self.device = device
        self._ids = torch.from_numpy(rows.batch.ids.astype(np.int64)).to(device)
        self._starts = torch.from_numpy(rows.batch.offsets[:-1].astype(np.int64)).to(device)
        self._lengths = torch.from_numpy(self.lengths.astype(np.int64)).to(device)
        self._base = torch.from_numpy(rows.base)
        self._labels = torch.from_numpy(rows.labels).to(device)

    def batch(self, rows: Indices) -> tuple[Any, Any, Any, Any]:
        """ids [sentences, longest], lengths, the base's features, labels."""
        import torch

        places = torch.from_numpy(rows)
        base = self._base[places].to(self.device).float()
        places = places.to(self.device)
        columns = torch.arange(int(self.lengths[rows].max()), device=self.device)
        lengths = self._lengths[places]
        own = columns < lengths.unsqueeze(1)
        ids = self._ids[torch.where(own, self._starts[places].unsqueeze(1) + columns, 0)]
        return torch.where(own, ids, PAD), lengths, base, self._labels[places]


def fit(
    shape: Shape,
    parameters: Parameters,
    learned: Rows,
    held: Rows,
    weights: npt.NDArray[np.float32],
    settings: Settings,
    device: str,
    tell: Callable[[float], None] = lambda progress: None,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> Fitted:
    """Train; `weights` are those of the labels in the loss. `tell` hears the share done after each step."""
    import torch
    from torch.nn import functional

    rng = np.random.default_rng(settings.seed)
    torch.manual_seed(settings.seed + 1)
    resident, judged = _Resident(learned, device), _Resident(held, device)
    parameters = {name: value.to(device).requires_grad_() for name, value in parameters.items()}
    average = {name: value.detach().clone() for name, value in parameters.items()}
    label_weights = torch.from_numpy(weights).to(device)
    optimiser = _optimiser(parameters, settings)
    dropout = Dropout(settings.embedding_dropout, settings.feature_dropout)
    planned = max(1, settings.epochs * math.ceil(len(learned.labels) / settings.batch))
    history: list[Epoch] = []
    best, best_logits, waited = average, judge(shape, average, judged), 0
    step, begin = 0, time.monotonic()
    for number in range(1, settings.epochs + 1):
        total, first = 0.0, step
        for rows in batches(resident.lengths, settings.batch, rng):
            progress = max(step / planned, (time.monotonic() - begin) / settings.seconds)
            if progress >= 1:
                break
            for group in optimiser.param_groups:
                group["lr"] = group["rate"] * schedule(progress)
            ids, lengths, base, wanted = resident.batch(rows)
            dropped = (torch.rand(ids.shape, device=device) < settings.word_dropout) & (ids != PAD)
            ids = torch.where(dropped, UNKNOWN, ids)
            found = logits(shape, parameters, ids, lengths, base, dropout)
            loss = functional.cross_entropy(found, wanted, label_weights)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            step += 1
            total += float(loss.detach())
            keep = min(AVERAGING, step / (step + 9))
            with torch.no_grad():
                torch._foreach_lerp_(list(average.values()), list(parameters.values()), 1 - keep)
            tell(progress)
        if step == first:
            break
        held_logits = judge(shape, average, judged)
        loss_now, accuracy = quality(held_logits, held.labels, weights)
        better = not any(entry.best for entry in history) or _rank(loss_now, accuracy) < min(
            _rank(entry.held_loss, entry.held_accuracy) for entry in history
        )
        history.append(
            Epoch(number, total / (step - first), loss_now, accuracy, time.monotonic() - begin, better)
        )
        report(history[-1])
        if better:
            best, best_logits = {name: value.clone() for name, value in average.items()}, held_logits
        waited = 0 if better else waited + 1
        if waited >= settings.patience or progress >= 1:
            break
    arrays = {name: value.cpu().numpy() for name, value in best.items()}
    return Fitted(arrays, best_logits, history)


def _rank(loss: float, accuracy: float) -> tuple[float, float]:
    """The smaller, the better."""
    return (-accuracy, loss)


def batches(lengths: Array, size: int, rng: np.random.Generator) -> Iterator[Indices]:
    """All rows once, in batches of similar length, in random order."""
    rows = rng.permutation(len(lengths))
    chunks = [rows[start : start + SORTED * size] for start in range(0, len(rows), SORTED * size)]
    cut = [
        ordered[start : start + size]
        for chunk in chunks
        for ordered in [chunk[np.argsort(lengths[chunk], kind="stable")]]
        for start in range(0, len(ordered), size)
    ]
    for index in rng.permutation(len(cut)):
        yield cut[index]


def schedule(progress: float) -> float:
    """The learning rate's factor: a warm-up, then half a cosine down to nothing."""
    return min((progress + 1e-3) / WARM_UP, 0.5 * (1 + math.cos(math.pi * progress)))


def judge(shape: Shape, parameters: Parameters, rows: _Resident) -> Doubles:
    """The logits of all rows, float64 [rows, labels]."""
    import torch

    order = np.argsort(rows.lengths, kind="stable")
    found = np.empty((len(order), shape.labels))
    with torch.no_grad():
        for start in range(0, len(order), JUDGED_AT_ONCE):
            some = order[start : start + JUDGED_AT_ONCE]
            ids, lengths, base, _ = rows.batch(some)
            found[some] = logits(shape, parameters, ids, lengths, base).double().cpu().numpy()
    return found


def _optimiser(parameters: Parameters, settings: Settings) -> Any:
    import torch

    embedding = parameters["embedding.weight"]
    others = [value for value in parameters.values() if value is not embedding]
    rate = settings.rate * settings.embedding_rate
    groups = [
        {"params": [embedding], "rate": rate, "weight_decay": 0.0},
        {"params": others, "rate": settings.rate, "weight_decay": settings.decay},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate, fused=True)
