"""The network in PyTorch, twice: written the straightforward way, and folded by the same algebra as ours.

What is left between the folded one and ours is kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from accel_cli.bench.peer_precision import dtype_of, set_precision
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import expert_layers, folding_saves
from accel_cli.model.weights import Layer, Weights


class Network:
    """The layers, as one would write them in PyTorch."""

    def __init__(
        self, torch: Any, spec: ModelSpec, weights: Weights, device: Any, precision: str = "fp32"
    ) -> None:
        load = _Loader(torch, device, precision)
        self._torch, self._residual = torch, spec.residual
        self._embedding = load.values(weights.embedding)
        self._convolutions = [load.layer(layer) for layer in weights.convolutions]
        self._gate = load.layer(weights.gate)
        self._experts = [load.layer(layer) for layer in weights.experts]
        self._fully_connected = [load.layer(layer) for layer in weights.fully_connected]

    def __call__(self, sentences: Any, masks: Sequence[Any]) -> Any:
        """Logits [sentences, labels] of padded ids [sentences, length], or of embeddings, channel first.

        A mask is bool [sentences, 1, windows], or None: which windows of a width are none.
        """
        torch, functional = self._torch, self._torch.nn.functional
        if sentences.dim() == 3:
            x = sentences.to(self._embedding.dtype)
        else:
            x = functional.embedding(sentences, self._embedding).transpose(1, 2)
        pooled = []
        for (weight, bias), mask in zip(self._convolutions, masks, strict=True):
            y = torch.relu(functional.conv1d(x, weight, bias))
            if mask is not None:  # what ReLU leaves is never below zero, so zeros cannot win
                y = y.masked_fill(mask, 0.0)
            pooled.append(y.amax(dim=2))
        features = torch.cat(pooled, dim=1)
        gate = torch.softmax(functional.linear(features, *self._gate), dim=1)
        values = sum(
            gate[:, e : e + 1] * functional.linear(features, *expert)
            for e, expert in enumerate(self._experts)
        )
        *hidden, last = self._fully_connected
        for number, layer in enumerate(hidden):
            y = torch.relu(functional.linear(values, *layer))
            values = y + values if number in self._residual else y
        return functional.linear(values, *last).float()


class FoldedNetwork:
    """Rows of a table for each tap, gathered and added; experts folded where that saves work.

    Tables are made in exact float32 and rounded once.
    """

    def __init__(self, torch: Any, spec: ModelSpec, weights: Weights, device: Any, precision: str) -> None:
        load, exact = _Loader(torch, device, precision), _Loader(torch, device, "fp32")
        self._torch, self._folded, self._residual = torch, folding_saves(spec), spec.residual
        set_precision(torch, "fp32")
        words = exact.values(weights.embedding)
        self._convolutions = []
        for layer in weights.convolutions:
            taps = exact.values(layer.weight.transpose(2, 1, 0))  # [width, dimension, filters]
            tables = [(words @ tap).to(load.dtype) for tap in taps]
            self._convolutions.append((tables, load.values(layer.bias)))
        set_precision(torch, precision)
        experts = expert_layers(weights) if self._folded else weights.experts
        self._gate = load.layer(weights.gate)
        self._experts = (
            load.values(np.concatenate([expert.weight for expert in experts])),
            load.values(np.concatenate([expert.bias for expert in experts])),
        )
        rest = weights.fully_connected[1:] if self._folded else weights.fully_connected
        self._rest = [load.layer(layer) for layer in rest]

    def __call__(self, ids: Any, masks: Sequence[Any]) -> Any:
        """Logits [sentences, labels] of padded ids [sentences, length]; masks as in Network."""
        torch, functional = self._torch, self._torch.nn.functional
        pooled = []
        for (tables, bias), mask in zip(self._convolutions, masks, strict=True):
            windows = ids.shape[1] - len(tables) + 1
            rows = (functional.embedding(ids[:, j : j + windows], table) for j, table in enumerate(tables))
            y = reduce(torch.add, rows)
            if mask is not None:
                y = y.masked_fill(mask.transpose(1, 2), -torch.inf)
            pooled.append(torch.relu(y.amax(dim=1) + bias))
        features = torch.cat(pooled, dim=1)
        gate = torch.softmax(functional.linear(features, *self._gate), dim=1)
        experts = functional.linear(features, *self._experts).view(*gate.shape, -1)
        inputs = values = (gate[:, :, None] * experts).sum(dim=1)
        for number, layer in enumerate(self._rest, int(self._folded)):
            if number:
                values = torch.relu(values)
            if number - 1 in self._residual:
                values = values + inputs
            inputs, values = values, functional.linear(values, *layer)
        return values.float()


class _Loader:
    """Puts weights on a device, rounded to a precision's type."""

    def __init__(self, torch: Any, device: Any, precision: str) -> None:
        self._torch, self._device, self.dtype = torch, device, dtype_of(torch, precision)

    def values(self, values: Any) -> Any:
        """A tensor."""
        return self._torch.tensor(np.ascontiguousarray(values), device=self._device).to(self.dtype)

    def layer(self, layer: Layer) -> tuple[Any, Any]:
        """Weight and bias."""
        return self.values(layer.weight), self.values(layer.bias)
