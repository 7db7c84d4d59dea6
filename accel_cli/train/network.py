"""The network that is trained, as functions of its parameters: a dictionary under their standard names.

Only what is learned is here: the new dimensions of the embedding, the new filters, and all that comes
after the features. What the base contributes arrives computed; `whole` puts both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from accel_cli.batches import Floats
from accel_cli.text.vocabulary import UNKNOWN
from accel_cli.train.base import Base

if TYPE_CHECKING:
    from torch import Tensor

    Parameters: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """The sizes of what is learned. Each of `widths` and of `base_widths` has `filters` filters."""

    words: int
    dimension: int
    widths: tuple[int, ...]
    base_widths: tuple[int, ...]
    filters: int
    experts: int
    hidden: int
    labels: int

    @property
    def all_widths(self) -> tuple[int, ...]:
        """The widths of the whole network, in the order of its features."""
        return tuple(sorted((*self.widths, *self.base_widths)))

    @property
    def features(self) -> int:
        """The pooled features of a sentence, the base's among them."""
        return len(self.all_widths) * self.filters


@dataclass(frozen=True)
class Dropout:
    """The shares that are blanked in training: values of embedded words, features."""

    embedding: float = 0.0
    features: float = 0.0


def initial(shape: Shape, embedding: Floats, frequencies: Floats) -> Parameters:
    """Parameters to start from, drawn by torch's generator; scores begin at the labels' `frequencies`."""
    import torch

    def layer(name: str, outputs: int, *inputs: int, gain: float = 1.0) -> Parameters:
        weight = torch.randn(outputs, *inputs) * (gain / int(np.prod(inputs))) ** 0.5
        return {f"{name}.weight": weight, f"{name}.bias": torch.zeros(outputs)}

    found = {"embedding.weight": torch.from_numpy(embedding)}
    for width in shape.widths:
        found |= layer(f"convolution.{width}", shape.filters, shape.dimension, width)
    found |= layer("gate", shape.experts, shape.features, gain=0.1)
    for expert in range(shape.experts):
        found |= layer(f"experts.{expert}", shape.hidden, shape.features)
    found |= layer("fc.0", shape.hidden, shape.hidden, gain=2.0)
    found |= layer("fc.1", shape.labels, shape.hidden, gain=0.1)
    found["fc.1.bias"] = torch.from_numpy(np.log(frequencies).astype(np.float32))
    return found


def logits(
    shape: Shape,
    parameters: Parameters,
    ids: Tensor,
    lengths: Tensor,
    base: Tensor,
    dropout: Dropout | None = None,
) -> Tensor:
    """Logits of padded `ids` [sentences, longest], of which `lengths` count.

    `base` holds the base's features, [sentences, base widths, filters]; `dropout` is for training.
    """
    import torch
    from torch.nn import functional

    embedded = functional.embedding(ids, parameters["embedding.weight"])
    if dropout is not None:
        embedded = functional.dropout(embedded, dropout.embedding)
    pooled = {width: base[:, number] for number, width in enumerate(shape.base_widths)}
    for width in shape.widths:
        # windows laid out and one matrix product: on a CPU nearly twice as fast as conv1d
        count = ids.shape[1] - width + 1
        windows = torch.cat([embedded[:, tap : tap + count] for tap in range(width)], dim=2)
        matrix = parameters[f"convolution.{width}.weight"].transpose(1, 2).flatten(1)
        values = functional.linear(windows, matrix, parameters[f"convolution.{width}.bias"])
        foreign = torch.arange(count, device=ids.device) > (lengths - width).unsqueeze(1)
        pooled[width] = functional.relu(values.masked_fill(foreign.unsqueeze(2), -torch.inf).amax(dim=1))
    features = torch.cat([pooled[width] for width in shape.all_widths], dim=1)
    if dropout is not None:
        features = functional.dropout(features, dropout.features)

    def layer(name: str, values: Tensor) -> Tensor:
        return functional.linear(values, parameters[f"{name}.weight"], parameters[f"{name}.bias"])

    gate = functional.softmax(layer("gate", features), dim=1)
    mixture = sum(
        gate[:, expert : expert + 1] * layer(f"experts.{expert}", features) for expert in range(shape.experts)
    )
    return layer("fc.1", functional.relu(layer("fc.0", torch.as_tensor(mixture))))


def whole(
    shape: Shape, learned: Mapping[str, Floats], base: Base | None, scales: Floats
) -> dict[str, Floats]:
    """Base and learned parts as one network; the latter saw the base's features times `scales`."""
    tensors = dict(learned)
    if base is None:
        return tensors
    old = base.weights
    known, before = old.embedding.shape
    embedding = np.zeros((shape.words, before + shape.dimension), dtype=np.float32)
    embedding[:known, :before] = old.embedding
    embedding[known:, :before] = old.embedding[UNKNOWN]  # which is what new words are to the base
    embedding[:, before:] = learned["embedding.weight"]
    tensors["embedding.weight"] = embedding

    def weight(width: int, part: slice, values: Floats) -> None:
        name = f"convolution.{width}.weight"
        tensors[name] = np.zeros((shape.filters, before + shape.dimension, width), dtype=np.float32)
        tensors[name][:, part] = values

    for width in shape.widths:
        weight(width, slice(before, None), learned[f"convolution.{width}.weight"])
    columns = np.ones((len(shape.all_widths), shape.filters), dtype=np.float32)
    for width, layer, scale in zip(shape.base_widths, old.convolutions, scales, strict=True):
        weight(width, slice(before), layer.weight)
        tensors[f"convolution.{width}.bias"] = layer.bias
        columns[shape.all_widths.index(width)] = scale
    # scaling belongs behind the features: before them, large terms would cancel and cost precision
    for name in ("gate", *(f"experts.{expert}" for expert in range(shape.experts))):
        tensors[f"{name}.weight"] = learned[f"{name}.weight"] * columns.ravel()
    return tensors
