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
from accel_cli.engines.cuda_outputs import Outputs
from accel_cli.engines.cuda_products import Products
from accel_cli.engines.cuda_shortcuts import Shortcuts
from accel_cli.engines.values import Values
from accel_cli.kernels.base import Runner
from accel_cli.kernels.relu import relu
from accel_cli.kernels.scale_add import scale_add
from accel_cli.kernels.sgemm import WEIGHED, sgemm_experts
from accel_cli.kernels.tensor_operands import Output
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
    shortcuts: Any


class Head:
    """`folded` experts have gone into the first fully connected layer (see model.folding)."""

    reads = Output.FP32

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
        self._numbers = range(int(folded), len(dense) - 1 + folded)  # of the hidden ones
        self._count, self._residual = spec.experts, spec.residual
        with_shortcut = [self._dense[number - folded] for number in spec.residual]
        self._shortcuts = Shortcuts(with_shortcut, products, run)

    def buffers(self, sentences: int) -> HeadBuffers:
        """Room for at most so many sentences."""
        return HeadBuffers(
            empty(sentences, self._experts.width),
            self._experts.buffer(sentences),
            empty(sentences, self._outputs),
            [empty(sentences, len(layer.bias)) for layer in self._dense[:-1]],
            self._shortcuts.room(sentences),
        )

    def __call__(self, features: Values, buffers: HeadBuffers, outputs: Outputs, observe: Observe) -> None:
        """All outputs of features [sentences, widths * filters] in fp32."""
        x, sentences = features.array, len(outputs.labels)
        gate = buffers.gate[:sentences]
        values = buffers.mixture[:sentences] if self._dense else outputs.logits
        with named("gate"):
            self._products.softmax(x, self._experts.gate, gate)
        observe("gate", Values(gate, self._count, Output.FP32))
        with named("experts"):
            self._experts(x, gate, buffers.experts, values)
        if not self._folded:
            observe("experts", values)
        elif self._dense:
            relu(self._run, values)
            observe("fc.0", values)
        for number, layer, room in zip(self._numbers, self._dense[:-1], buffers.hidden, strict=True):
            y = room[:sentences]
            with named(f"fc.{number}"):
                if number in self._residual:
                    self._shortcuts(values, layer, buffers.shortcuts, y)
                else:
                    self._products(values, layer, y, rectify=True)
            observe(f"fc.{number}", y)
            values = y
        if self._dense:
            self._products.score(values, self._dense[-1], outputs)
        else:
            outputs.score(self._run)
        observe("logits", outputs.logits)


@dataclass(frozen=True)
class Together:
    """All experts as one layer: row hidden * width + expert of `weight` and `bias` is an expert's output.

    They are filled up to a `width` of 1, 2 or 4 by ones whose gate is exactly 0: their bias in `gate` is
    -infinity. The weight is on the host, or on the device where it was made there.
    """

    gate: Layer
    weight: Any
    bias: Floats
    width: int


def side_by_side(gate: Layer, layers: Sequence[Layer]) -> Together:
    """Experts, at most four, as their fused products read them."""
    padded, width = widened(gate)
    outputs, inputs = layers[0].weight.shape
    weight = np.zeros((outputs, width, inputs), np.float32)
    bias = np.zeros((outputs, width), np.float32)
    for number, layer in enumerate(layers):
        weight[:, number], bias[:, number] = layer.weight, layer.bias
    return Together(padded, weight.reshape(-1, inputs), bias.ravel(), width)


def widened(gate: Layer) -> tuple[Layer, int]:
    """A gate of at most four experts, filled up, and its width then."""
    count = len(gate.bias)
    width = next(size for size in WEIGHED if size >= count)
    weight = np.pad(gate.weight, ((0, width - count), (0, 0)))
    return Layer(weight, np.pad(gate.bias, (0, width - count), constant_values=-np.inf)), width


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
        self.width = together.width
        self.gate = products.prepare(together.gate.weight, together.gate.bias)
        self._weight = products.packed(together.weight[:, :, None])
        self._bias = cupy().asarray(together.bias)

    def buffer(self, sentences: int) -> None:
        """Nothing is kept between product and sum."""

    def __call__(self, features: Any, gate: Any, room: None, values: Any) -> None:
        """values [sentences, outputs] = what the gate makes of the experts."""
        shape = len(values), len(self._bias), features.shape[1]
        tile = self._products.tiles.choose(*shape, kind="experts")
        sgemm_experts(self._run, features, gate, self._weight, self._bias, values, tile=tile)
