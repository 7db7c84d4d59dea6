"""One network's training: weighted epochs, batches of similar length, AdamW, an average of the weights."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from data import Array, Texts
from network import Network
from recipe import Fit
from torch import Tensor
from torch.nn import functional

from accel_cli.text.vocabulary import PAD, UNKNOWN

Report = Callable[[int, int, float, Network], None]
WARM_UP = 0.05  # of a training
ROUNDED = 8  # batches are padded to multiples of it, so that few shapes occur
SORTED = 64  # batches that are sorted by length together
LABELLING_BATCH = 2048


class Resident:
    """Texts on a device, from which batches are gathered there."""

    def __init__(self, texts: Texts, device: torch.device) -> None:
        self.device = device
        self.ids = torch.from_numpy(texts.ids).to(device)
        self.offsets = torch.from_numpy(texts.offsets).to(device)
        self.lengths = texts.lengths

    def batch(self, rows: Array) -> tuple[Tensor, Tensor]:
        """The sentences `rows` as padded ids [sentences, longest] and their lengths."""
        longest = -(-int(self.lengths[rows].max()) // ROUNDED) * ROUNDED
        places = torch.from_numpy(rows).to(self.device)
        starts = self.offsets[places]
        lengths = self.offsets[places + 1] - starts
        columns = torch.arange(longest, device=self.device)
        own = columns < lengths.unsqueeze(1)
        ids = self.ids[torch.where(own, starts.unsqueeze(1) + columns, 0)]
        return torch.where(own, ids, PAD), lengths


def draw(weights: Array, rng: np.random.Generator) -> Array:
    """The rows of an epoch: each row as often as its weight says, fractions by chance."""
    return np.repeat(np.arange(len(weights)), np.floor(weights + rng.random(len(weights))).astype(int))


def batches(rows: Array, lengths: Array, size: int, rng: np.random.Generator) -> Iterator[Array]:
    """Full batches of rows of similar length, in random order."""
    rng.shuffle(rows)
    chunks = [rows[start : start + SORTED * size] for start in range(0, len(rows), SORTED * size)]
    rows = np.concatenate([chunk[np.argsort(lengths[chunk], kind="stable")] for chunk in chunks])
    count = max(len(rows) // size, 1)
    for index in rng.permutation(count):
        yield rows[index * size : (index + 1) * size]


def train(
    network: Network,
    texts: Resident,
    weights: Array,
    targets: Tensor,
    fit: Fit,
    seed: int,
    report: Report,
    seconds: float = math.inf,
) -> Network:
    """Train `network` on the texts' `targets` [rows, labels], and return the average of its weights.

    After `seconds` the training is over, the learning rate having fallen faster.
    """
    rng = np.random.default_rng(seed)
    optimiser = _optimiser(network, fit)
    average = copy.deepcopy(network).eval().requires_grad_(False)
    step, progress, start = 0, 0.0, time.monotonic()
    planned = planned_steps(weights, fit)
    for epoch in range(fit.epochs):
        total, first = torch.zeros((), device=texts.device), step
        network.train()
        for rows in batches(draw(weights, rng), texts.lengths, fit.batch, rng):
            progress = max(step / planned, (time.monotonic() - start) / seconds)
            if progress >= 1:
                break
            for group in optimiser.param_groups:
                group["lr"] = fit.rate * schedule(progress)
            total += _step(network, optimiser, texts, rows, targets, fit.word_dropout)
            step += 1
            _follow(average, network, min(fit.averaging, step / (step + 9)))
        if step > first:
            report(epoch, step, float(total) / (step - first), average)
        if progress >= 1:
            break
    return average


def planned_steps(weights: Array, fit: Fit) -> int:
    """The steps of a whole training, give or take chance."""
    return max(int(weights.sum()) // fit.batch, 1) * fit.epochs


def schedule(progress: float) -> float:
    """The learning rate's factor: a warm-up, then half a cosine down to nothing."""
    return min(progress / WARM_UP, 0.5 * (1 + math.cos(math.pi * progress)))


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 on a GPU, nothing elsewhere."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


@torch.inference_mode()
def probabilities(network: Network, texts: Resident) -> Tensor:
    """What a network says of every text, [rows, labels]."""
    network.eval()
    order = np.argsort(texts.lengths, kind="stable")
    parts = []
    with autocast(texts.device):
        for start in range(0, len(order), LABELLING_BATCH):
            logits = network(*texts.batch(order[start : start + LABELLING_BATCH]))
            parts.append(functional.softmax(logits.float(), dim=1))
    result = torch.cat(parts)
    return torch.empty_like(result).index_copy_(0, torch.from_numpy(order).to(texts.device), result)


@torch.no_grad()
def _follow(average: Network, network: Network, keep: float) -> None:
    """Move the average towards the network, keeping a share of what it was."""
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), 1 - keep)


def _optimiser(network: Network, fit: Fit) -> torch.optim.AdamW:
    embedding = network.embedding.weight
    others = [parameter for parameter in network.parameters() if parameter is not embedding]
    groups = [{"params": [embedding], "weight_decay": 0.0}, {"params": others, "weight_decay": fit.decay}]
    return torch.optim.AdamW(groups, lr=fit.rate, fused=True)


def _step(
    network: Network,
    optimiser: torch.optim.AdamW,
    texts: Resident,
    rows: Array,
    targets: Tensor,
    word_dropout: float,
) -> Tensor:
    ids, lengths = texts.batch(rows)
    dropped = (torch.rand(ids.shape, device=texts.device) < word_dropout) & (ids != PAD)
    with autocast(texts.device):
        logits = network(torch.where(dropped, UNKNOWN, ids), lengths)
    wanted = targets[torch.from_numpy(rows).to(texts.device)]
    loss = functional.cross_entropy(logits.float(), wanted)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    return loss.detach()
