"""Rewrite 2 on a CUDA device: the experts times the first fully connected layer, products in fp32."""

from __future__ import annotations

import numpy as np

from accel_cli.batches import Doubles, Floats
from accel_cli.cuda.buffers import empty, uploaded, zero
from accel_cli.engines.cuda_head import Together, widened
from accel_cli.kernels.base import Runner
from accel_cli.kernels.sgemm import sgemm
from accel_cli.model.weights import Weights


def folded_together(weights: Weights, run: Runner) -> Together:
    """The folded experts as `side_by_side` puts them; their weight is on the device."""
    first, features = weights.fully_connected[0], weights.gate.weight.shape[1]
    gate, width = widened(weights.gate)
    left, nothing = uploaded(first.weight), empty(features)
    weight = empty(len(first.bias), width * features)
    zero(nothing)
    zero(weight)
    through: Doubles = first.weight.astype(np.float64)
    bias = np.zeros((len(first.bias), width), np.float32)
    for number, expert in enumerate(weights.experts):
        right = uploaded(_in_quads(expert.weight))
        sgemm(run, left, right, nothing, weight, column=number * features)
        bias[:, number] = (through @ expert.bias).astype(np.float32) + first.bias
    return Together(gate, weight.reshape(-1, features), bias.ravel(), width)


def _in_quads(weight: Floats) -> Floats:
    """With rows of a multiple of 4, as sgemm reads them."""
    more = -weight.shape[1] % 4
    return np.pad(weight, ((0, 0), (0, more))) if more else weight
