"""From features to logits on a CUDA device: gate, experts, fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.cuda.ranges import named
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_products import Products
from accel_cli.kernels.base import Runner
from accel_cli.kernels.relu import relu
from accel_cli.kernels.scale_add import scale_add
from accel_cli.kernels.sgemm import WEIGHED, sgemm_experts
from accel_cli.kernels.softmax import softmax
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import expert_layers
from accel_cli.model.weights import Layer, Weights


@dataclass(frozen=True)
class HeadBuffers:
    """The arrays of one batch."""

    gate: Any
    experts: Any
    mixture: Any
    hidden: list[Any]


class Head:
    """`folded` experts have gone into the first fully connected layer (see model.folding)."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, products: Products, run: Runner, *, folded: bool
    ) -> None:
        self._run, self._products, self._folded = run, products, folded
        layers = expert_layers(weights) if folded else weights.experts
        dense = weights.fully_connected[1:] if folded else weights.fully_connected
        self._outputs = len(layers[0].bias)
        self._experts: _Fused | _Separate
        if products.fused and spec.experts <= WEIGHED[-1]:
            self._experts = _Fused(weights.gate, layers, products, run)
        else:
            self._experts = _Separate(weights.gate, layers, products, run)
        self._dense = [products.prepare(layer.weight, layer.bias) for layer in dense]
        self._names = [f"fc.{number + folded}" for number in range(len(dense) - 1)]

    def buffers(self, sentences: int) -> HeadBuffers:
        """Room for at most so many sentences."""
        return HeadBuffers(
            empty(sentences, self._experts.width),
            self._experts.buffer(sentences),
            empty(sentences, self._outputs),
            [empty(sentences, len(layer.bias)) for layer in self._dense[:-1]],
        )

    def __call__(self, features: Any, buffers: HeadBuffers, logits: Any, observe: Observe) -> None:
        """logits [sentences, labels] of features [sentences, widths * filters]."""
        sentences = len(features)
        gate, values = buffers.gate[:sentences], buffers.mixture[:sentences] if self._dense else logits
        with named("gate"):
            self._products(features, self._experts.gate, gate)
            softmax(self._run, gate, gate)
        observe("gate", gate[:, : self._experts.count])
        with named("experts"):
            self._experts(features, gate, buffers.experts, values)
        if not self._folded:
            observe("experts", values)
        elif self._dense:
            relu(self._run, values)
            observe("fc.0", values)
        for name, layer, room in zip(self._names, self._dense[:-1], buffers.hidden, strict=True):
            y = room[:sentences]
            with named(name):
                self._products(values, layer, y, rectify=True)
            observe(name, y)
            values = y
        if self._dense:
            with named("logits"):
                self._products(values, self._dense[-1], logits)
        observe("logits", logits)


@dataclass(frozen=True)
class Together:
    """All experts as one layer: row hidden * width + expert of `weight` and `bias` is an expert's output.

    They are filled up to a `width` of 1, 2 or 4 by ones whose gate is exactly 0: their bias in `gate` is
    -infinity.
    """

    gate: Layer
    weight: Floats
    bias: Floats
    width: int


def side_by_side(gate: Layer, layers: Sequence[Layer]) -> Together:
    """Experts, at most four, as their fused products read them."""
    width = next(size for size in WEIGHED if size >= len(layers))
    more = width - len(layers)
    outputs, inputs = layers[0].weight.shape
    weight = np.zeros((outputs, width, inputs), np.float32)
    bias = np.zeros((outputs, width), np.float32)
    for number, layer in enumerate(layers):
        weight[:, number], bias[:, number] = layer.weight, layer.bias
    padded = Layer(
        np.pad(gate.weight, ((0, more), (0, 0))), np.pad(gate.bias, (0, more), constant_values=-np.inf)
    )
    return Together(padded, weight.reshape(-1, inputs), bias.ravel(), width)


class _Separate:
    """A product for each expert, then their weighted sum."""

    def __init__(self, gate: Layer, layers: Sequence[Layer], products: Products, run: Runner) -> None:
        self._run, self._products = run, products
        self.count = self.width = len(layers)
        self.gate = products.prepare(gate.weight, gate.bias)
        self._layers = [products.prepare(layer.weight, layer.bias) for layer in layers]

    def buffer(self, sentences: int) -> Any:
        """Of each expert's outputs."""
        return empty(self.count * sentences, len(self._layers[0].bias))

    def __call__(self, features: Any, gate: Any, room: Any, values: Any) -> None:
        """values [sentences, outputs] = what the gate makes of the experts."""
        shape = (self.count, *values.shape)
        experts = room[: shape[0] * shape[1]].reshape(shape)
        for layer, y in zip(self._layers, experts, strict=True):
            self._products(features, layer, y)
        scale_add(self._run, gate, experts, values)


class _Fused:
    """One product for all experts, weighed in its epilogue."""

    def __init__(self, gate: Layer, layers: Sequence[Layer], products: Products, run: Runner) -> None:
        self._run, self._products = run, products
        together = side_by_side(gate, layers)
        self.count, self.width = len(layers), together.width
        self.gate = products.prepare(together.gate.weight, together.gate.bias)
        self._weight = products.packed(together.weight[:, :, None])
        self._bias = cupy().asarray(together.bias)

    def buffer(self, sentences: int) -> None:
        """Nothing is kept between product and sum."""

    def __call__(self, features: Any, gate: Any, room: None, values: Any) -> None:
        """values [sentences, outputs] = what the gate makes of the experts."""
        tile = self._products.tiles.choose(len(values), len(self._bias), features.shape[1])
        sgemm_experts(self._run, features, gate, self._weight, self._bias, values, tile=tile)
