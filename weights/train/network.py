"""The network of accel in PyTorch; its state has the standard names of `accel_cli.model.weights`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from ragged import load_arrays
from torch import Tensor, nn
from torch.nn import functional

from accel_cli.model.config import ModelSpec
from accel_cli.text.vocabulary import SPECIAL


class Network(nn.Module):
    """Sentences of any length to logits; the sizes come from `spec`.

    In training `embedding_dropout` blanks values of the embedded words, `feature_dropout` pooled features.
    """

    def __init__(self, spec: ModelSpec, embedding_dropout: float = 0.0, feature_dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(spec.vocabulary_size, spec.embedding)
        self.convolution = nn.ModuleDict(
            {str(width): nn.Conv1d(spec.embedding, spec.filters, width) for width in spec.widths}
        )
        self.gate = nn.Linear(spec.features, spec.experts)
        self.experts = nn.ModuleList(
            [nn.Linear(spec.features, spec.expert_hidden) for _ in range(spec.experts)]
        )
        sizes = (spec.expert_hidden, *spec.fully_connected)
        self.fc = nn.ModuleList([nn.Linear(*pair) for pair in pairwise(sizes)])
        self.residual = spec.residual
        self.embedding_dropout = nn.Dropout(embedding_dropout)
        self.feature_dropout = nn.Dropout(feature_dropout)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Logits of a padded batch: `ids` [sentences, longest], of which `lengths` [sentences] count."""
        embedded = self.embedding_dropout(self.embedding(ids)).transpose(1, 2).unsqueeze(2)
        pooled = [_pool(embedded, layer, lengths) for layer in self.convolution.values()]
        features = self.feature_dropout(torch.cat(pooled, dim=1))
        gate = functional.softmax(self.gate(features), dim=1)
        outputs = torch.stack([expert(features) for expert in self.experts], dim=1)
        values = (gate.unsqueeze(2) * outputs).sum(dim=1)
        *hidden, last = self.fc
        for number, layer in enumerate(hidden):
            rectified = functional.relu(layer(values))
            values = rectified + values if number in self.residual else rectified
        return last(values)


def _pool(embedded: Tensor, layer: nn.Conv1d, lengths: Tensor) -> Tensor:
    """A convolution's maximum over a sentence's own windows, then ReLU.

    Two-dimensional, since there cuDNN takes channels last, which is how the embedded words lie.
    """
    values = functional.conv2d(embedded, layer.weight.unsqueeze(2), layer.bias)
    windows = lengths - layer.kernel_size[0] + 1
    foreign = torch.arange(values.shape[3], device=values.device) >= windows.unsqueeze(1)
    return functional.relu(values.masked_fill(foreign[:, None, None], -torch.inf).amax(dim=(2, 3)))


def initial_embedding(spec: ModelSpec, words: list[bytes], vectors: list[Path], seed: int) -> Tensor:
    """Word vectors side by side, as many as there are; whatever they leave open is small and random."""
    embedding = np.random.default_rng(seed).normal(0, 0.1, (spec.vocabulary_size, spec.embedding))
    start = 0
    for path in vectors:
        file = load_arrays(path)
        known = {word.encode(): row for row, word in enumerate(file["words"].tolist())}
        table = file["vecs"].astype(np.float32)
        stop = min(start + table.shape[1], spec.embedding)
        found = [row for row, word in enumerate(words) if word in known and word not in SPECIAL]
        embedding[found, start:stop] = table[[known[words[row]] for row in found], : stop - start]
        start = stop
    return torch.from_numpy(embedding.astype(np.float32))
