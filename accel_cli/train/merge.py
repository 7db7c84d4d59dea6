"""Several trained networks, and what they have of a base, as one network of the family.

Each has its own embedding columns and its own filters, which see only those: blocks on a diagonal.
The layer behind the features is linear, so that one layer gives the mean of all logits; it is an
expert without rivals, followed by the identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from accel_cli.batches import Floats
from accel_cli.text.vocabulary import UNKNOWN
from accel_cli.train.base import Base
from accel_cli.train.network import Shape


def merge(
    shape: Shape, members: Sequence[Mapping[str, Floats]], filters: int, base: Base | None, scales: Floats
) -> dict[str, Floats]:
    """Tensors under their standard names, with `filters` a width.

    The members saw the base's features times `scales` [base widths, base filters].
    """
    before = base.spec.embedding if base else 0
    dimension = before + len(members) * shape.dimension
    widths = shape.all_widths
    embedding = np.zeros((shape.words, dimension), dtype=np.float32)
    tensors: dict[str, Floats] = {"embedding.weight": embedding}
    for width in widths:
        tensors[f"convolution.{width}.weight"] = np.zeros((filters, dimension, width), dtype=np.float32)
        tensors[f"convolution.{width}.bias"] = np.zeros(filters, dtype=np.float32)
    head = np.zeros((shape.labels, len(widths), filters), dtype=np.float32)
    if base is not None:
        known = len(base.words)
        embedding[:known, :before] = base.weights.embedding
        embedding[known:, :before] = base.weights.embedding[UNKNOWN]  # what new words are to the base
        for width, layer in zip(shape.base_widths, base.weights.convolutions, strict=True):
            tensors[f"convolution.{width}.weight"][:, :before] = layer.weight
            tensors[f"convolution.{width}.bias"][:] = layer.bias
    for number, member in enumerate(members):
        columns = slice(before + number * shape.dimension, before + (number + 1) * shape.dimension)
        rows = slice(number * shape.filters, (number + 1) * shape.filters)
        embedding[:, columns] = member["embedding.weight"]
        for width in shape.widths:
            tensors[f"convolution.{width}.weight"][rows, columns] = member[f"convolution.{width}.weight"]
            tensors[f"convolution.{width}.bias"][rows] = member[f"convolution.{width}.bias"]
        own = len(shape.widths) * shape.filters
        weight = member["head.weight"] / len(members)
        learned = weight[:, :own].reshape(shape.labels, len(shape.widths), shape.filters)
        head[:, [widths.index(width) for width in shape.widths], rows] = learned
        # scaling belongs behind the features: before them, large terms would cancel and cost precision
        if base is not None:
            taken = weight[:, own:].reshape(shape.labels, *scales.shape) * scales
            head[:, [widths.index(width) for width in shape.base_widths]] += taken
    bias: Floats = np.stack([member["head.bias"] for member in members]).mean(axis=0)
    return tensors | {
        "gate.weight": np.zeros((1, head[0].size), dtype=np.float32),
        "gate.bias": np.zeros(1, dtype=np.float32),
        "experts.0.weight": head.reshape(shape.labels, -1),
        "experts.0.bias": bias,
        "fc.0.weight": np.eye(shape.labels, dtype=np.float32),
        "fc.0.bias": np.zeros(shape.labels, dtype=np.float32),
    }
