"""From features to logits on tensor cores: gate, experts, fully connected layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.cuda.ranges import named
from accel_cli.engines.base import Observe
from accel_cli.engines.cuda_head import side_by_side
from accel_cli.engines.cuda_outputs import Outputs
from accel_cli.engines.folded_experts import folded_together
from accel_cli.engines.tensor_products import TensorProducts, narrow
from accel_cli.engines.values import Room, Values
from accel_cli.kernels.base import Runner
from accel_cli.kernels.tensor_gemm import tensor_experts
from accel_cli.kernels.tensor_operands import Output
from accel_cli.kernels.tensor_tile import Source
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import expert_layers
from accel_cli.model.weights import Weights


@dataclass(frozen=True)
class TensorHeadBuffers:
    """The arrays of one batch: the gate's, and what each layer but the last leaves."""

    gate: Any
    layers: list[Room]


class TensorHead:
    """All experts in one product; `folded` ones have gone into the first fully connected layer.

    The gate, and a last layer of few outputs, are computed in fp32.
    """

    def __init__(
        self, spec: ModelSpec, weights: Weights, products: TensorProducts, run: Runner, *, folded: bool
    ) -> None:
        self._spec, self._run, self._products, self._folded = spec, run, products, folded
        self.reads = products.operands.stored
        if folded and not products.operands.split:
            experts = folded_together(weights, run)
            self._experts = products.packed_on_device(experts.weight[:, :, None])
        else:  # a split weight is made in float64, and scaled by its largest value
            experts = side_by_side(weights.gate, expert_layers(weights) if folded else weights.experts)
            self._experts = products.packed(experts.weight[:, :, None])
        self._gate = narrow(experts.gate.weight, experts.gate.bias)
        self._bias = cupy().asarray(experts.bias)
        dense = weights.fully_connected[1:] if folded else weights.fully_connected
        self._hidden = [products.prepare(layer.weight, layer.bias) for layer in dense[:-1]]
        self._last = products.prepare_last(dense[-1].weight, dense[-1].bias) if dense else None
        self._names = ["fc.0" if folded else "experts", *(f"fc.{i + folded}" for i in range(len(dense) - 1))]
        widths = [len(experts.bias) // experts.width, *(len(layer.bias) for layer in dense[:-1])]
        readers = [*self._hidden, *([self._last] if self._last else [])]
        self._rooms = [(width, reader.reads) for width, reader in zip(widths, readers, strict=False)]

    def buffers(self, sentences: int) -> TensorHeadBuffers:
        """Room for at most so many sentences."""
        layers = [Room(sentences, width, reads) for width, reads in self._rooms]
        return TensorHeadBuffers(empty(sentences, len(self._gate.bias)), layers)

    def __call__(
        self, features: Values, buffers: TensorHeadBuffers, outputs: Outputs, observe: Observe
    ) -> None:
        """All outputs of features [sentences, widths * filters], stored as `reads` says."""
        count, logits = len(outputs.labels), outputs.logits
        gate, places = buffers.gate[:count], [room.rows(count) for room in buffers.layers]
        with named("gate"):
            self._products.softmax(features, self._gate, gate)
        observe("gate", Values(gate, self._spec.experts, Output.FP32))
        with named("experts"):
            self._mix(features, gate, places[0] if places else Values(logits, logits.shape[1], Output.FP32))
        for number, layer in enumerate(self._hidden):
            observe(self._names[number], places[number])
            x, y = places[number], places[number + 1]
            with named(self._names[number + 1]):
                if number + self._folded in self._spec.residual:
                    self._products.residual(x, layer, y)
                else:
                    self._products(x, layer, y, rectify=True)
        if self._last is None:
            outputs.score(self._run)
        else:
            observe(self._names[-1], places[-1])
            self._products.score(places[-1], self._last, outputs)
        observe("logits", logits)

    def _mix(self, features: Values, gate: Any, y: Values) -> None:
        """y = what the gate makes of the experts, in one product; ReLU if that is a hidden layer."""
        products, packed = self._products, self._experts
        source = Source.PACKED if features.packed else Source.MATRIX
        tile = products.tiles.choose(len(gate), packed.columns, packed.operands, source)
        rectify, rest = self._folded and self._last is not None, (gate, packed, self._bias, y.array)
        tensor_experts(
            self._run, features.array, *rest, tile=tile, output=y.output, relu=rectify, source=source
        )
