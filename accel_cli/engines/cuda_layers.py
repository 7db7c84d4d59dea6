"""The network on a CUDA device, layer by layer: one kernel a layer, all activations allocated once."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.cuda.device import cupy
from accel_cli.engines.base import Observe
from accel_cli.kernels.argmax import argmax
from accel_cli.kernels.base import Runner
from accel_cli.kernels.concat import concat
from accel_cli.kernels.conv1d import conv1d
from accel_cli.kernels.embedding import embedding
from accel_cli.kernels.getmax import getmax
from accel_cli.kernels.linear import linear
from accel_cli.kernels.relu import relu
from accel_cli.kernels.scale_add import scale_add
from accel_cli.kernels.softmax import softmax
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Layer, Weights


class DeviceWeights:
    """A network's arrays on the device."""

    def __init__(self, weights: Weights) -> None:
        def up(layer: Layer) -> tuple[Any, Any]:
            return cupy().asarray(layer.weight), cupy().asarray(layer.bias)

        self.embedding = cupy().asarray(weights.embedding)
        self.convolutions = [up(layer) for layer in weights.convolutions]
        self.gate = up(weights.gate)
        self.experts = [up(layer) for layer in weights.experts]
        self.fully_connected = [up(layer) for layer in weights.fully_connected]


class Activations:
    """The device arrays of one batch on its way, for at most `sentences` and `tokens`."""

    def __init__(self, spec: ModelSpec, sentences: int, tokens: int) -> None:
        def array(*shape: int) -> Any:
            return cupy().empty(shape, np.float32)

        self.embedded = array(tokens, spec.embedding)
        self.convolved = array(tokens, spec.filters)
        self.pooled = array(sentences, spec.filters)
        self.features = array(sentences, spec.features)
        self.gate = array(sentences, spec.experts)
        self.experts = array(spec.experts * sentences, spec.expert_hidden)
        self.mixture = array(sentences, spec.expert_hidden)
        self.hidden = [array(sentences, outputs) for outputs in spec.fully_connected[:-1]]


class Layers:
    """Enqueues the kernels of one batch, in order, on the current stream."""

    def __init__(self, spec: ModelSpec, weights: DeviceWeights, run: Runner) -> None:
        self._spec = spec
        self._weights = weights
        self._run = run

    def embed(self, ids: Any, buffers: Activations, observe: Observe) -> Any:
        """The embeddings of ids [tokens], token-major."""
        x = buffers.embedded[: len(ids)]
        embedding(self._run, ids, self._weights.embedding, x)
        observe("embedding", x)
        return x

    def forward(
        self,
        x: Any,
        strides: tuple[int, int],
        offsets: Any,
        buffers: Activations,
        outputs: tuple[Any, Any, Any],
        observe: Observe,
    ) -> None:
        """From embedded sentences to `outputs`: logits and scores [sentences, labels], labels [sentences].

        `strides` are x's steps, in floats, from token to token and from channel to channel.
        """
        run, weights, sentences = self._run, self._weights, len(offsets) - 1
        features = buffers.features[:sentences]
        y = buffers.convolved[: x.size // self._spec.embedding]
        for number, (width, (weight, bias)) in enumerate(
            zip(self._spec.widths, weights.convolutions, strict=True)
        ):
            conv1d(run, x, weight, bias, offsets, y, strides)
            observe(f"convolution.{width}", y)
            relu(run, y)
            pooled = buffers.pooled[:sentences]
            getmax(run, y, offsets, pooled, width)
            concat(run, pooled, features, number * self._spec.filters)
        observe("features", features)
        self._classify(features, buffers, outputs, observe)

    def _classify(
        self, features: Any, buffers: Activations, outputs: tuple[Any, Any, Any], observe: Observe
    ) -> None:
        run, weights, sentences = self._run, self._weights, len(features)
        gate = buffers.gate[:sentences]
        linear(run, features, *weights.gate, gate)
        softmax(run, gate, gate)
        observe("gate", gate)
        shape = (self._spec.experts, sentences, self._spec.expert_hidden)
        experts = buffers.experts[: shape[0] * shape[1]].reshape(shape)
        for expert, (weight, bias) in enumerate(weights.experts):
            linear(run, features, weight, bias, experts[expert])
        values = buffers.mixture[:sentences]
        scale_add(run, gate, experts, values)
        observe("experts", values)
        *hidden, last = weights.fully_connected
        for index, (weight, bias) in enumerate(hidden):
            y = buffers.hidden[index][:sentences]
            linear(run, values, weight, bias, y)
            relu(run, y)
            observe(f"fc.{index}", y)
            values = y
        logits, scores, labels = outputs
        linear(run, values, *last, logits)
        observe("logits", logits)
        softmax(run, logits, scores)
        argmax(run, logits, labels)
