"""The CPU engine: numpy in float32, work spread over threads (numpy lets go of the GIL where it counts)."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from accel_cli.batches import Batch, Floats, Predictions, TokenBatch
from accel_cli.cuda.stopwatch import Span
from accel_cli.engines.base import NOT_FINITE, Observe, Plan, TextSlot
from accel_cli.engines.cpu_convolution import FoldedConvolution, Im2colConvolution, product
from accel_cli.errors import DeviceError
from accel_cli.model.config import ModelSpec
from accel_cli.model.folding import fold_experts
from accel_cli.model.weights import Layer, Weights
from accel_cli.text.rows import Formatter
from accel_cli.text.tokenizer import Tokenizer

_SMALLEST_PIECE = 64  # sentences that are worth a thread of their own


def _ignore(name: str, value: Floats) -> None:
    """Observe nothing."""


class Dense:
    """A layer, its weight transposed once."""

    def __init__(self, layer: Layer) -> None:
        self._matrix = np.ascontiguousarray(layer.weight.T)
        self._bias = layer.bias

    def __call__(self, rows: Floats) -> Floats:
        """Its outputs [n, outputs] for rows [n, inputs]."""
        result = product(rows, self._matrix)
        result += self._bias
        return result


class Head:
    """Everything after the features: gate, experts and the fully connected layers."""

    def __init__(self, spec: ModelSpec, weights: Weights, experts: str) -> None:
        first, *rest = weights.fully_connected
        self._gate = Dense(weights.gate)
        self._experts = len(weights.experts)
        if experts == "folded":
            folded = fold_experts(weights)
            self._mixed = Dense(Layer(folded.weight, folded.bias))
            self._first: Callable[[Floats], Floats] = lambda mixture: mixture + folded.after
        else:
            stacked = Layer(
                np.concatenate([expert.weight for expert in weights.experts]),
                np.concatenate([expert.bias for expert in weights.experts]),
            )
            self._mixed = Dense(stacked)
            self._first = Dense(first)
        self._folded = experts == "folded"
        self._rest = [Dense(layer) for layer in rest]
        self._residual = spec.residual

    def logits(self, features: Floats, observe: Observe) -> Floats:
        """Logits [sentences, labels]."""
        gate = _softmax(self._gate(features))
        observe("gate", gate)
        outputs = self._mixed(features).reshape(len(features), self._experts, -1)
        mixture: Floats = gate[:, :1] * outputs[:, 0]
        for expert in range(1, self._experts):
            mixture += gate[:, expert : expert + 1] * outputs[:, expert]
        if not self._folded:
            observe("experts", mixture)
        inputs, values = mixture, self._first(mixture)
        for index, layer in enumerate(self._rest):
            values = np.maximum(values, 0.0)
            if index in self._residual:
                values += inputs
            observe(f"fc.{index}", values)
            inputs, values = values, layer(values)
        observe("logits", values)
        return values


def _softmax(values: Floats) -> Floats:
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    result: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True)
class _Piece:
    """Sentences of a batch that one thread computes, and where they stand in it."""

    batch: Batch
    places: npt.NDArray[np.intp]


class CpuTicket:
    """A batch whose pieces are computed by worker threads."""

    def __init__(self, pieces: list[_Piece], logits: list[Future[Floats]]) -> None:
        self._pieces = pieces
        self._logits = logits

    def result(self) -> Predictions:
        """Wait for all pieces and put them in the order of the batch."""
        parts = [future.result() for future in self._logits]
        rows = sum(len(part) for part in parts)
        logits = np.empty((rows, parts[0].shape[1]), dtype=np.float32)
        for piece, part in zip(self._pieces, parts, strict=True):
            logits[piece.places] = part
        return Predictions.from_logits(logits)


class CpuEngine:
    """A model on the CPU. Safe to use from several threads."""

    def __init__(self, spec: ModelSpec, weights: Weights, plan: Plan) -> None:
        self.plan = plan
        convolution = FoldedConvolution if plan.convolution == "folded" else Im2colConvolution
        self._convolution = convolution(spec, weights)
        self._head = Head(spec, weights, plan.experts)
        # products are small and workers many: BLAS threads inside them would cost far more than they bring
        self._blas = ThreadpoolController().select(user_api="blas")
        self._workers = ThreadPoolExecutor(plan.streams, thread_name_prefix="accel-cpu")

    def submit(self, batch: Batch) -> CpuTicket:
        """Start a batch of at least one sentence."""
        pieces = self._cut(batch)
        return CpuTicket(pieces, [self._workers.submit(self._logits, piece.batch) for piece in pieces])

    def text_reader(self, tokenizer: Tokenizer) -> None:
        """None: the host finds the words here."""

    def text_slots(
        self, tokenizer: Tokenizer, formatter: Formatter, size: int
    ) -> AbstractContextManager[list[TextSlot]]:
        """None: everything is the host's here."""
        return nullcontext([])

    def trace(self, batch: Batch) -> dict[str, npt.NDArray[np.float32]]:
        """The checkpoints that this plan computes."""
        layers: dict[str, npt.NDArray[np.float32]] = {}
        order, ordered = _by_length(batch)

        def keep(name: str, values: Floats) -> None:
            layers[name] = np.empty_like(values)
            layers[name][order] = values

        self._logits(ordered, keep)
        return layers

    def stage_times(self, batch: Batch) -> list[tuple[str, float]]:
        """Seconds for each layer of one batch on one thread."""
        _, ordered = _by_length(batch)
        marks: list[tuple[str, float]] = []
        begin = time.perf_counter()
        self._logits(ordered, lambda name, _: marks.append((name, time.perf_counter())))
        starts = [begin, *(mark for _, mark in marks[:-1])]
        return [(name, mark - start) for (name, mark), start in zip(marks, starts, strict=True)]

    def kernel_times(self, batch: Batch) -> list[Span]:
        """None: there are no kernels on a CPU."""
        return []

    def text_times(self, tokenizer: Tokenizer, formatter: Formatter, size: int, text: bytes) -> list[Span]:
        """None: there are no text slots either."""
        return []

    def close(self) -> None:
        """Stop the worker threads."""
        self._workers.shutdown(cancel_futures=True)

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused in the end
    def _logits(self, batch: Batch, observe: Observe = _ignore) -> Floats:
        with self._blas.limit(limits=1):
            features = self._convolution.features(batch)
            observe("features", features)
            logits = self._head.logits(features, observe)
        if not np.isfinite(logits).all():
            raise DeviceError(NOT_FINITE)
        return logits

    def _cut(self, batch: Batch) -> list[_Piece]:
        """About equal shares of a batch for each worker, of sentences of like length."""
        order, ordered = _by_length(batch)
        count = min(self.plan.streams, len(batch) // _SMALLEST_PIECE)
        if count <= 1:
            return [_Piece(ordered, order)]
        if isinstance(ordered, TokenBatch):
            cuts = np.searchsorted(ordered.offsets, np.linspace(0, ordered.offsets[-1], count + 1)[1:-1])
        else:
            cuts = np.linspace(0, len(ordered), count + 1)[1:-1].astype(np.int64)
        edges = [0, *(int(cut) for cut in cuts), len(ordered)]
        spans = [(start, stop) for start, stop in pairwise(edges) if start < stop]
        return [_Piece(ordered.rows(start, stop), order[start:stop]) for start, stop in spans]


def _by_length(batch: Batch) -> tuple[npt.NDArray[np.intp], Batch]:
    """An order of the sentences by length, and the batch in that order."""
    if not isinstance(batch, TokenBatch):
        return np.arange(len(batch)), batch
    order = np.argsort(batch.lengths, kind="stable")
    return order, batch.take(order)
