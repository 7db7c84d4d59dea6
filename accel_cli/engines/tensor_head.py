"""From features to logits on tensor cores: gate, experts, fully connected layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.cuda.ranges import named
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_head import side_by_side
from accel_cli.engines.tensor_products import Room, TensorProducts, Values
from accel_cli.kernels.base import Runner
from accel_cli.kernels.skinny import skinny
from accel_cli.kernels.softmax import softmax
from accel_cli.kernels.tensor_gemm import tensor_experts
from accel_cli.kernels.tensor_operands import Output
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import expert_layers
from accel_cli.model.weights import Weights


@dataclass(frozen=True)
class TensorHeadBuffers:
    """The arrays of one batch: the gate's, the features as operands, what each layer but the last leaves."""

    gate: Any
    features: Room
    layers: list[Room]


class TensorHead:
    """All experts in one product; `folded` ones have gone into the first fully connected layer.

    The gate, and layers of few outputs, are computed in fp32 from what is stored in fp32.
    """

    def __init__(
        self, spec: ModelSpec, weights: Weights, products: TensorProducts, run: Runner, *, folded: bool
    ) -> None:
        self._spec, self._run, self._products, self._folded = spec, run, products, folded
        experts = side_by_side(weights.gate, expert_layers(weights) if folded else weights.experts)
        self._gate = cupy().asarray(experts.gate.weight), cupy().asarray(experts.gate.bias)
        self._experts = products.packed(experts.weight[:, :, None])
        self._bias = cupy().asarray(experts.bias)
        dense = weights.fully_connected[1:] if folded else weights.fully_connected
        self._dense = [
            products.prepare(layer.weight, layer.bias, last=number + 1 == len(dense))
            for number, layer in enumerate(dense)
        ]
        self._sizes = [len(self._bias) // experts.width, *(len(layer.bias) for layer in dense)]
        self._names = ["fc.0" if folded else "experts", *(f"fc.{i + folded}" for i in range(len(dense)))]

    def buffers(self, sentences: int) -> TensorHeadBuffers:
        """Room for at most so many sentences."""
        outputs = zip(self._sizes, self._dense, strict=False)
        return TensorHeadBuffers(
            empty(sentences, len(self._gate[1])),
            self._products.room(sentences, self._spec.features),
            [Room(sentences, size, following.reads) for size, following in outputs],
        )

    def __call__(self, features: Any, buffers: TensorHeadBuffers, logits: Any, observe: Observe) -> None:
        """logits [sentences, labels] of features [sentences, widths * filters], both in fp32."""
        count, run, products = len(features), self._run, self._products
        gate, h = buffers.gate[:count], buffers.features.rows(count)
        with named("gate"):
            skinny(run, features, *self._gate, gate)
            softmax(run, gate, gate)
        observe("gate", gate[:, : self._spec.experts])
        places = [room.rows(count) for room in buffers.layers]
        places.append(Values(logits, logits.shape[1], Output.FP32))
        with named("experts"):
            products.cast(features, h)
            tile = products.tiles.choose(count, self._experts.columns, self._experts.operands)
            rectify = self._folded and bool(self._dense)
            rest = (gate, self._experts, self._bias, places[0].array)
            tensor_experts(run, h.array, *rest, tile=tile, output=places[0].output, relu=rectify)
        if self._dense:
            observe(self._names[0], places[0])
        for number, layer in enumerate(self._dense):
            last = number + 1 == len(self._dense)
            with named("logits" if last else self._names[number + 1]):
                products(places[number], layer, places[number + 1], rectify=not last)
            if not last:
                observe(self._names[number + 1], places[number + 1])
        observe("logits", logits)
