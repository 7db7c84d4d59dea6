"""The network that is trained, as functions of its parameters: a dictionary.

Only what is learned is here: an embedding, filters, and one linear layer behind the features. What a
base contributes arrives computed. Several such networks and the base are one network in `merge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from accel_cli.batches import Floats
from accel_cli.train.rows import Batch

if TYPE_CHECKING:
    from torch import Tensor

    Parameters: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes of one network: `filters` for each of `widths`, `base_filters` for each of `base_widths`."""

    words: int
    dimension: int
    widths: tuple[int, ...]
    filters: int
    base_widths: tuple[int, ...]
    base_filters: int
    labels: int

    @property
    def all_widths(self) -> tuple[int, ...]:
        """The widths of the whole network, in the order of its features."""
        return tuple(sorted((*self.widths, *self.base_widths)))

    @property
    def features(self) -> int:
        """The pooled features of a sentence: its own, by width, then the base's."""
        return len(self.widths) * self.filters + len(self.base_widths) * self.base_filters


def initial(shape: Shape, embedding: Floats, frequencies: Floats) -> Parameters:
    """Parameters to start from, drawn by torch's generator; scores begin at the labels' `frequencies`."""
    import torch

    found = {"embedding.weight": torch.from_numpy(embedding)}
    for width in shape.widths:
        inputs = shape.dimension * width
        weight = torch.randn(shape.filters, shape.dimension, width) / inputs**0.5
        found |= {
            f"convolution.{width}.weight": weight,
            f"convolution.{width}.bias": torch.zeros(shape.filters),
        }
    found["head.weight"] = torch.randn(shape.labels, shape.features) * (0.1 / shape.features) ** 0.5
    found["head.bias"] = torch.from_numpy(np.log(frequencies).astype(np.float32))
    return found


def logits(shape: Shape, parameters: Parameters, batch: Batch, dropout: float = 0.0) -> Tensor:
    """Logits [sentences, labels]; `dropout` is the share of features blanked in training."""
    import torch
    from torch.nn import functional

    ids, lengths = batch.ids, batch.lengths
    embedded = functional.embedding(ids, parameters["embedding.weight"])
    pooled = []
    for width in shape.widths:
        # windows laid out and one matrix product: on a CPU nearly twice as fast as conv1d
        count = ids.shape[1] - width + 1
        windows = torch.cat([embedded[:, tap : tap + count] for tap in range(width)], dim=2)
        matrix = parameters[f"convolution.{width}.weight"].transpose(1, 2).flatten(1)
        values = functional.linear(windows, matrix, parameters[f"convolution.{width}.bias"])
        # an addition and `max` pass gradients on faster than `masked_fill` and `amax` do
        foreign = torch.arange(count, device=ids.device) > (lengths - width).unsqueeze(1)
        shut = torch.zeros(foreign.shape, device=ids.device).masked_fill(foreign, -torch.inf)
        pooled.append(functional.relu((values + shut.unsqueeze(2)).max(dim=1).values))
    features = functional.dropout(torch.cat([*pooled, batch.base.flatten(1)], dim=1), dropout)
    return functional.linear(features, parameters["head.weight"], parameters["head.bias"])
