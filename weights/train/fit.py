"""A network's training: weighted epochs, batches of similar length, AdamW, an average of the weights.

Teacher and student are trained alike: both are called with padded ids and lengths.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from ragged import Array, Rows
from recipe import Fit
from torch import Tensor, nn
from torch.nn import functional

from accel_cli.text.vocabulary import PAD, UNKNOWN

Report = Callable[[int, int, float, nn.Module], None]
WARM_UP = 0.05  # of a training
ROUNDED = 8  # batches are padded to multiples of it, so that few shapes occur
SORTED = 64  # batches that are sorted by length together
BUDGET = 1 << 16  # ids of a batch that is only read
STEEPEST = 1.0  # norm of a gradient


class Resident:
    """Texts on a device, from which padded batches are gathered there without waiting for it.

    A sentence counts `least` to `most` ids, `pad` filling up.
    """

    def __init__(
        self, rows: Rows, device: torch.device, pad: int = PAD, least: int = 1, most: int = 1 << 20
    ) -> None:
        self.device, self.pad, self.least = device, pad, least
        self.ids = torch.from_numpy(rows.ids).to(device)
        self.starts = torch.from_numpy(rows.offsets[:-1].astype(np.int64)).to(device)
        cut = np.minimum(rows.lengths, most).astype(np.int64)
        self.counts = torch.from_numpy(cut).to(device)
        self.lengths = np.maximum(cut, least)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """The sentences `rows` as padded ids [sentences, longest, rounded up] and their lengths."""
        columns = torch.arange(-(-longest // ROUNDED) * ROUNDED, device=self.device)
        counts = self.counts[rows]
        own = columns < counts.unsqueeze(1)
        ids = self.ids[torch.where(own, self.starts[rows].unsqueeze(1) + columns, 0)]
        return torch.where(own, ids, self.pad), counts.clamp(min=self.least)


def draw(weights: Array, rng: np.random.Generator) -> Array:
    """The rows of an epoch: each row as often as its weight says, fractions by chance."""
    return np.repeat(np.arange(len(weights)), np.floor(weights + rng.random(len(weights))).astype(int))


def batches(
    texts: Resident, rows: Array, size: int, rng: np.random.Generator
) -> Iterator[tuple[Tensor, int]]:
    """Full batches of rows of similar length, in random order, and their longest."""
    rng.shuffle(rows)
    for start in range(0, len(rows), SORTED * size):
        chunk = rows[start : start + SORTED * size]
        chunk = chunk[np.argsort(texts.lengths[chunk], kind="stable")]
        there = torch.from_numpy(chunk).to(texts.device)
        for index in rng.permutation(max(len(chunk) // size, 1)):
            some = slice(index * size, (index + 1) * size)
            yield there[some], int(texts.lengths[chunk[some][-1]])


def train(
    network: nn.Module,
    texts: Resident,
    weights: Array,
    targets: Tensor,
    fit: Fit,
    seed: int,
    report: Report,
    seconds: float = math.inf,
) -> nn.Module:
    """Train `network` towards `targets`, logits [rows, labels], and return the average of its weights.

    After `seconds` the training is over, the learning rate having fallen faster.
    """
    rng = np.random.default_rng(seed)
    optimiser = _optimiser(network, fit)
    average = copy.deepcopy(network).eval().requires_grad_(False)
    step, progress, start = 0, 0.0, time.monotonic()
    planned = max(int(weights.sum()) // fit.batch, 1) * fit.epochs
    for epoch in range(fit.epochs):
        total, first = torch.zeros((), device=texts.device), step
        network.train()
        for rows, longest in batches(texts, draw(weights, rng), fit.batch, rng):
            progress = max(step / planned, (time.monotonic() - start) / seconds)
            if progress >= 1:
                break
            for group in optimiser.param_groups:
                group["lr"] = fit.rate * group["share"] * schedule(progress)
            ids, lengths = texts.batch(rows, longest)
            total += _step(network, optimiser, ids, lengths, targets[rows], fit)
            step += 1
            _follow(average, network, min(fit.averaging, step / (step + 9)))
        if step > first:
            report(epoch, step, float(total) / (step - first), average)
        if progress >= 1:
            break
    return average


def schedule(progress: float) -> float:
    """The learning rate's factor: a warm-up, then half a cosine down to nothing."""
    return min(progress / WARM_UP, 0.5 * (1 + math.cos(math.pi * progress)))


def autocast(network: nn.Module) -> torch.autocast:
    """bfloat16 on a GPU where the weights are float32, nothing elsewhere."""
    weight = next(network.parameters())
    mixed = weight.device.type == "cuda" and weight.dtype == torch.float32
    return torch.autocast(weight.device.type, torch.bfloat16, enabled=mixed)


@torch.inference_mode()
def over_all(
    network: nn.Module, texts: Resident, call: Callable[..., Tensor], budget: int = BUDGET
) -> Tensor:
    """What `call`, a method of the network, says of every text, in batches of `budget` ids."""
    network.eval()
    order = np.argsort(texts.lengths, kind="stable")
    there = torch.from_numpy(order).to(texts.device)
    parts, stop = [], len(order)
    with autocast(network):
        while stop > 0:
            longest = int(texts.lengths[order[stop - 1]])
            start = max(stop - max(budget // (longest + ROUNDED), 1), 0)
            parts.append(call(*texts.batch(there[start:stop], longest)).float())
            stop = start
    result = torch.cat(parts[::-1])
    return torch.empty_like(result).index_copy_(0, there, result)


def _step(
    network: nn.Module, optimiser: torch.optim.AdamW, ids: Tensor, lengths: Tensor, targets: Tensor, fit: Fit
) -> Tensor:
    if fit.word_dropout:
        dropped = (torch.rand(ids.shape, device=ids.device) < fit.word_dropout) & (ids != PAD)
        ids = torch.where(dropped, UNKNOWN, ids)
    with autocast(network):
        logits = network(ids, lengths)
    wanted = functional.softmax(targets.float() / fit.temperature, dim=1)
    loss = fit.temperature**2 * functional.cross_entropy(logits.float() / fit.temperature, wanted)
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), STEEPEST)
    optimiser.step()
    return loss.detach()


@torch.no_grad()
def _follow(average: nn.Module, network: nn.Module, keep: float) -> None:
    """Move the average towards the network, keeping a share of what it was."""
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - keep)


def _optimiser(network: nn.Module, fit: Fit) -> torch.optim.AdamW:
    """Only matrices that are no table of words decay."""
    tables = [module.weight for module in network.modules() if isinstance(module, nn.Embedding)]
    known = {id(table) for table in tables}
    others = [parameter for parameter in network.parameters() if id(parameter) not in known]
    settings = [
        {"params": tables, "weight_decay": 0.0, "share": fit.embedding_rate},
        {"params": [one for one in others if one.ndim > 1], "weight_decay": fit.decay, "share": 1.0},
        {"params": [one for one in others if one.ndim < 2], "weight_decay": 0.0, "share": 1.0},
    ]
    return torch.optim.AdamW(settings, lr=fit.rate, fused=True)
