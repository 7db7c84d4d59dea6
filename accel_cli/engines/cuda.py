"""The CUDA engine: a ring of slots, each with its stream, pinned staging and device buffers.

Batches are cut so that each part fits a slot; parts go to the slots in turn, so that the copies of
one overlap with the kernels of another. Nothing is allocated, compiled or synchronised between the
start and the end of a steady run, but for the wait when a slot is still busy.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, EmbeddingBatch, Predictions, TokenBatch
from accel_cli.cuda.buffers import Mirror
from accel_cli.cuda.device import cupy, facts
from accel_cli.cuda.errors import DeviceFull, DeviceLost, translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.base import Observe, Plan
from accel_cli.engines.cuda_layers import Activations, DeviceWeights, Layers
from accel_cli.errors import AccelWarning, DeviceError
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights

_TOKENS_EACH = 64  # tokens a sentence that a slot has room for, on average


def _ignore(name: str, value: Any) -> None:
    """Observe nothing."""


class Slot:
    """Room for one part of a batch: its stream, staging, activations and results."""

    def __init__(self, spec: ModelSpec, sentences: int, *, embeddings: bool) -> None:
        each = spec.length or min(spec.max_tokens, _TOKENS_EACH)
        self.sentences = sentences
        self.tokens = max(sentences * each, spec.max_tokens)
        self.stream = cupy().cuda.Stream(non_blocking=True)
        self.done = cupy().cuda.Event(disable_timing=True)
        self.ids = Mirror(self.tokens, "int32")
        self.offsets = Mirror(sentences + 1, "int32")
        self.values = Mirror(self.tokens * spec.embedding if embeddings else 0, "float32")
        self.buffers = Activations(spec, sentences, self.tokens)
        self.logits = Mirror(sentences * len(spec.labels), "float32")
        self.scores = Mirror(sentences * len(spec.labels), "float32")
        self.labels = Mirror(sentences, "int32")
        self.part: CudaPart | None = None


class CudaPart:
    """The part of a batch that a slot holds, until its results are fetched."""

    def __init__(self, slot: Slot, count: int) -> None:
        self._slot: Slot | None = slot
        self._count = count
        self._predictions: Predictions | None = None

    def fetch(self) -> Predictions:
        """Wait for the device and copy the results out of the slot, which is then free."""
        if self._slot is not None:
            slot, count = self._slot, self._count
            slot.done.synchronize()
            logits = slot.logits.host.reshape(slot.sentences, -1)[:count].copy()
            scores = slot.scores.host.reshape(slot.sentences, -1)[:count].copy()
            self._predictions = Predictions(logits, scores, slot.labels.host[:count].copy())
            self._slot = slot.part = None
        assert self._predictions is not None
        return self._predictions


class CudaTicket:
    """A batch on its way through the slots."""

    def __init__(self, engine: CudaEngine, parts: list[CudaPart]) -> None:
        self._engine = engine
        self._parts = parts

    def result(self) -> Predictions:
        """Wait for all parts."""
        predictions = self._engine.fetch(self._parts)
        if not np.isfinite(predictions.logits).all():
            raise DeviceError(
                "the model computed NaN or infinity; check the input embeddings and the weights"
            )
        return predictions


class CudaEngine:
    """A model on a CUDA device. Safe to use from several threads: one at a time talks to the device."""

    def __init__(self, spec: ModelSpec, weights: Weights, plan: Plan, *, embeddings: bool = False) -> None:
        self._spec = spec
        self._lock = threading.RLock()
        self._index = int(plan.device.partition(":")[2])
        self.device = facts(self._index)
        with self._using("loading the weights"):
            self._launcher = Launcher(self.device)
            self._layers = Layers(spec, DeviceWeights(weights), self._launcher)
        self._slots = self._allocate(plan, embeddings)
        self.plan = replace(plan, batch=self._slots[0].sentences)
        self._next = 0

    @contextmanager
    def _using(self, doing: str) -> Iterator[None]:
        """Hold the engine, make its device the current one, and translate CUDA's errors."""
        with self._lock, cupy().cuda.Device(self._index), translated(doing):
            yield

    def _allocate(self, plan: Plan, embeddings: bool) -> list[Slot]:
        """All slots; with a smaller batch, said once, when the device has no room for the one planned."""
        batch = plan.batch
        while True:
            try:
                with self._using(f"allocating {plan.streams} slots of {batch} sentences"):
                    slots = [Slot(self._spec, batch, embeddings=embeddings) for _ in range(plan.streams)]
                break
            except DeviceFull as error:
                if batch == 1:
                    raise DeviceError(
                        f"{error}; not even one sentence fits: free memory on the device"
                    ) from error
            batch //= 2  # only here, with the error gone, is what its traceback held free again
            cupy().get_default_memory_pool().free_all_blocks()
            cupy().get_default_pinned_memory_pool().free_all_blocks()
        if batch != plan.batch:
            warnings.warn(
                f"the device has no memory for a batch of {plan.batch}; going on with {batch}."
                f" Say `--batch {batch}` to start with that",
                AccelWarning,
                stacklevel=3,
            )
        return slots

    def submit(self, batch: Batch) -> CudaTicket:
        """Start a batch of at least one sentence; waits while all slots are busy."""
        with self._using("running a batch"):
            return CudaTicket(self, [self._start(part, _ignore) for part in self._parts(batch)])

    def fetch(self, parts: list[CudaPart]) -> Predictions:
        """The predictions of consecutive parts."""
        with self._using("waiting for a batch"):
            return Predictions.concatenate([part.fetch() for part in parts])

    def trace(self, batch: Batch) -> dict[str, npt.NDArray[np.float32]]:
        """Every checkpoint of one batch."""
        kept: dict[str, list[npt.NDArray[np.float32]]] = {}
        with self._using("tracing a batch"):
            for part in self._parts(batch):

                def keep(name: str, value: Any, part: Batch = part) -> None:
                    array = cupy().asnumpy(value)
                    if name.startswith("convolution."):
                        array = array[self._windows(part, int(name.partition(".")[2]))]
                    kept.setdefault(name, []).append(array)

                self._start(part, keep).fetch()
        return {name: np.concatenate(arrays) for name, arrays in kept.items()}

    def stage_times(self, batch: Batch) -> list[tuple[str, float]]:
        """Seconds on the device for each layer, over the parts of a batch, one after the other."""
        times: dict[str, float] = {}
        with self._using("timing a batch"):
            for part in self._parts(batch):
                begin = cupy().cuda.Event()
                marks: list[tuple[str, Any]] = []

                def mark(name: str, _: Any, marks: list[tuple[str, Any]] = marks) -> None:
                    event = cupy().cuda.Event()
                    event.record()
                    marks.append((name, event))

                self._start(part, mark, begin).fetch()
                before = begin
                for name, event in marks:
                    seconds = cupy().cuda.get_elapsed_time(before, event) / 1e3
                    times[name] = times.get(name, 0.0) + seconds
                    before = event
        return list(times.items())

    def close(self) -> None:
        """Wait for what is under way and release the device's memory."""
        with suppress(DeviceLost), self._using("closing"):  # what is lost needs no release
            for slot in self._slots:
                slot.stream.synchronize()
            self._slots = []

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch in consecutive parts that each fit a slot."""
        slot, start = self._slots[0], 0
        if isinstance(batch, EmbeddingBatch) and not slot.values.host.size:
            raise DeviceError("this engine has no room for embeddings; open it with embeddings=True")
        while start < len(batch):
            stop = min(start + slot.sentences, len(batch))
            if isinstance(batch, TokenBatch):
                room = int(batch.offsets[start]) + slot.tokens
                stop = min(stop, int(np.searchsorted(batch.offsets, room, side="right")) - 1)
            else:
                stop = min(stop, start + slot.tokens // batch.values.shape[2])
            yield batch.rows(start, stop)
            start = stop

    def _start(self, batch: Batch, observe: Observe, begin: Any = None) -> CudaPart:
        """Enqueue copies and kernels of one part on the next slot's stream."""
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        if slot.part is not None:
            slot.part.fetch()
        count, labels = len(batch), len(self._spec.labels)
        with slot.stream:
            if begin is not None:
                begin.record()
            if isinstance(batch, TokenBatch):
                offsets = slot.offsets.upload(batch.offsets, slot.stream)
                ids = slot.ids.upload(batch.ids, slot.stream)
                x, strides = self._layers.embed(ids, slot.buffers, observe), (self._spec.embedding, 1)
            else:
                tokens = batch.values.shape[2]
                offsets = slot.offsets.upload(
                    np.arange(count + 1, dtype=np.int32) * np.int32(tokens), slot.stream
                )
                x, strides = slot.values.upload(batch.values, slot.stream), (1, tokens)
            outputs = (
                slot.logits.device[: count * labels].reshape(count, labels),
                slot.scores.device[: count * labels].reshape(count, labels),
                slot.labels.device[:count],
            )
            self._layers.forward(x, strides, offsets, slot.buffers, outputs, observe)
            slot.logits.download(count * labels, slot.stream)
            slot.scores.download(count * labels, slot.stream)
            slot.labels.download(count, slot.stream)
            slot.done.record(slot.stream)
        slot.part = CudaPart(slot, count)
        return slot.part

    def _windows(self, batch: Batch, width: int) -> npt.NDArray[np.bool_]:
        """Which rows of a convolution's output are windows inside a sentence."""
        if isinstance(batch, EmbeddingBatch):
            sentences, _, tokens = batch.values.shape
            return np.tile(np.arange(tokens) <= tokens - width, sentences)
        ends = np.repeat(batch.offsets[1:], batch.lengths)
        return np.arange(len(batch.ids)) <= ends - width
