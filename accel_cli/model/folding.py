"""The two exact rewrites: algebra done once, at load or when a word turns up, which saves most of the work.

1. Embedding into convolution. T[j, v, c] = sum_d W[c, d, j] * E[v, d] turns a convolution into a sum of
   table rows, y[t, c] = b[c] + sum_j T[j, token[t + j], c].
2. Experts into the first fully connected layer. No activation stands between them, so
   fc0(m) = sum_e g_e * (L W_e h + L b_e) + l. Not where that layer has a shortcut, which adds m itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel_cli.batches import Doubles, Floats
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Layer, Weights


@dataclass(frozen=True)
class FoldedExperts:
    """Experts and first fully connected layer in one.

    `weight` [experts * outputs, features] and `bias` [experts * outputs] give, for each expert, what
    the gate weighs; `after` [outputs] is the layer's own bias, added once.
    """

    weight: Floats
    bias: Floats
    after: Floats


def experts_fold(spec: ModelSpec) -> bool:
    """Whether rewrite 2 is one: not where a shortcut leads around the first fully connected layer."""
    return 0 not in spec.residual


def folding_saves(spec: ModelSpec) -> bool:
    """Whether rewrite 2 saves work: all experts then have the outputs of the first fully connected layer."""
    return experts_fold(spec) and spec.fully_connected[0] < spec.expert_hidden


def fold_experts(weights: Weights) -> FoldedExperts:
    """Rewrite 2, computed in float64."""
    first = weights.fully_connected[0]
    through: Doubles = first.weight.astype(np.float64)
    weight = [through @ expert.weight for expert in weights.experts]
    bias = [through @ expert.bias for expert in weights.experts]
    return FoldedExperts(
        np.concatenate(weight).astype(np.float32), np.concatenate(bias).astype(np.float32), first.bias
    )


def expert_layers(weights: Weights) -> list[Layer]:
    """Rewrite 2 as a layer for each expert, which holds all of `after`: the gate's values sum to 1."""
    folded, outputs = fold_experts(weights), len(weights.fully_connected[0].bias)
    bias = folded.bias.reshape(-1, outputs) + folded.after
    return [Layer(*parts) for parts in zip(folded.weight.reshape(len(bias), outputs, -1), bias, strict=True)]


def tap_matrix(convolutions: tuple[Layer, ...]) -> Floats:
    """The convolutions as one matrix [dimension, taps * filters]: rewrite 1 is an embedding times this.

    Taps run over the widths and, within a width, over the columns j; all have the same filters.
    """
    columns = [layer.weight.transpose(1, 2, 0).reshape(layer.weight.shape[1], -1) for layer in convolutions]
    return np.ascontiguousarray(np.concatenate(columns, axis=1))
