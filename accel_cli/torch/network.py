"""The family of networks in plain PyTorch, to be trained; its state dict has the names of a weights file."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor, nn

from accel_cli.errors import UsageError
from accel_cli.model.config import ModelSpec


class Network(nn.Module):
    """Embedding, convolutions, ReLU and maximum over time, a softmax gate over linear experts, linear layers.

    The sizes are those of a configuration. ReLU follows every fully connected layer but the last one, whose
    outputs are the labels. `residual` has the numbers of those whose input is added to that; UsageError if
    that cannot be.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding: int,
        widths: Sequence[int],
        filters: int,
        experts: int,
        expert_hidden: int,
        fully_connected: Sequence[int],
        residual: Collection[int] = (),
    ) -> None:
        super().__init__()
        if len(set(widths)) != len(widths) or not fully_connected:
            raise UsageError(
                f"Network: widths {list(widths)}, fully_connected {list(fully_connected)}; name each width"
                " once, and one layer at least"
            )
        self.residual = tuple(residual)
        features = len(widths) * filters
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.convolution = nn.ModuleDict(
            {str(width): nn.Conv1d(embedding, filters, width) for width in widths}
        )
        self.gate = nn.Linear(features, experts)
        self.experts = nn.ModuleList(nn.Linear(features, expert_hidden) for _ in range(experts))
        sizes = (expert_hidden, *fully_connected)
        for number in self.residual:
            if number not in range(len(fully_connected) - 1) or sizes[number] != sizes[number + 1]:
                raise UsageError(
                    f"Network: residual has {number}, but no hidden layer {number} has as many inputs as"
                    f" outputs: their sizes are {list(sizes)}; leave it out"
                )
        self.fc = nn.ModuleList(map(nn.Linear, sizes[:-1], sizes[1:]))

    @classmethod
    def of(cls, spec: ModelSpec) -> Network:
        """The network of a configuration, with weights of PyTorch's own."""
        return cls(
            vocabulary_size=spec.vocabulary_size,
            embedding=spec.embedding,
            widths=spec.widths,
            filters=spec.filters,
            experts=spec.experts,
            expert_hidden=spec.expert_hidden,
            fully_connected=spec.fully_connected,
            residual=spec.residual,
        )

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits [sentences, labels] of ids [sentences, tokens]; `lengths` [sentences] says how many count.

        A sentence has at least as many tokens as the widest convolution takes; without lengths all count.
        """
        embedded = self.embedding(ids).transpose(1, 2)
        pooled = []
        for width, convolution in self.convolution.items():
            values = torch.relu(convolution(embedded))
            if lengths is not None:  # what ReLU leaves is never below zero, so zeros cannot win
                windows = torch.arange(values.shape[2], device=ids.device)
                beyond = windows > (lengths - int(width)).unsqueeze(1)
                values = values.masked_fill(beyond.unsqueeze(1), 0.0)
            pooled.append(values.amax(2))
        features = torch.cat(pooled, 1)
        gate = torch.softmax(self.gate(features), 1)
        outputs = torch.stack([expert(features) for expert in self.experts], 1)
        values = (gate.unsqueeze(1) @ outputs).squeeze(1)
        *hidden, last = self.fc
        for number, layer in enumerate(hidden):
            rectified = torch.relu(layer(values))
            values = rectified + values if number in self.residual else rectified
        logits: Tensor = last(values)
        return logits
