"""A slot of the CUDA engine: room for one part of a batch on its way, and how the part gets through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol

import numpy as np

from accel_cli.batches import Batch, P, Predictions, TokenBatch
from accel_cli.cuda.buffers import Mirror
from accel_cli.cuda.device import cupy
from accel_cli.cuda.graphs import Replays, captured
from accel_cli.cuda.ranges import named
from accel_cli.cuda.stopwatch import head_start
from accel_cli.engines.base import Observe, Plan
from accel_cli.engines.cuda_convolution import Sentences
from accel_cli.engines.cuda_layers import Layers
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import ceil_div
from accel_cli.model.config import ModelSpec

_TOKENS_EACH = 64  # tokens a sentence that a slot has room for, on average
_ALIGNED = 64  # values, where each of the results begins
_MOST_TOKENS = (1 << 31) - 1  # offsets are int32


@dataclass(frozen=True)
class Room:
    """What fits a slot: sentences, their tokens together, and whether they may come as embeddings."""

    sentences: int
    tokens: int
    embeddings: bool

    @staticmethod
    def of(spec: ModelSpec, sentences: int, *, embeddings: bool) -> Room:
        """For so many sentences, of usual lengths where they have any; DeviceError if they are too many."""
        each = spec.length or min(spec.max_tokens, _TOKENS_EACH)
        tokens = max(sentences * each, spec.max_tokens)
        if tokens > _MOST_TOKENS:
            raise DeviceError(
                f"a batch of {sentences} sentences has room for {tokens} tokens, and {_MOST_TOKENS} can be"
                " counted; ask for a smaller --batch"
            )
        return Room(sentences, tokens, embeddings)


class Holder(Protocol[P]):
    """A slot, as its parts see it."""

    part: CudaPart[P] | None

    def finish(self) -> None:
        """Wait until the device is done with the part."""
        ...

    def results(self, count: int) -> P:
        """Those of `count` sentences, which the device is done with."""
        ...


class CudaPart(Generic[P]):
    """The part of a batch that a slot holds, until its results are fetched."""

    def __init__(self, slot: Holder[P], batch: Sized) -> None:
        self._slot: Holder[P] | None = slot
        self._batch = batch  # whose memory is perhaps still being read
        self._predictions: P | None = None

    def finish(self) -> None:
        """Wait for the device, while others use the engine: they may even fetch the results meanwhile."""
        if (slot := self._slot) is not None:
            slot.finish()

    def fetch(self) -> P:
        """Wait for the device and copy the results out of the slot, which is then free. Holds the engine."""
        slot = self._slot
        if slot is not None:
            slot.finish()
            self._predictions = slot.results(len(self._batch))
            self._slot = slot.part = None
        assert self._predictions is not None
        return self._predictions


@contextmanager
def enqueueing(stream: Any) -> Iterator[None]:
    """On a slot's stream. After an error nothing is under way: a copy may still read what comes next."""
    try:
        with stream:
            yield
    except BaseException:
        with suppress(Exception):  # the first error says why
            stream.synchronize()
        raise


class Slot:
    """A stream, staging, activations and results for what there is room for."""

    def __init__(self, spec: ModelSpec, layers: Layers, plan: Plan, room: Room) -> None:
        self._room = room
        self.part: CudaPart[Predictions] | None = None
        self._layers, self._labels, self._captures = layers, len(spec.labels), plan.launch == "graph"
        pinned = plan.copies == "pinned"
        self._stream = cupy().cuda.Stream(non_blocking=True)
        self._done = cupy().cuda.Event(disable_timing=True)
        self._ids = Mirror(room.tokens, "int32", pinned=pinned)
        self._offsets = Mirror(room.sentences + 1, "int32", pinned=pinned)
        values = room.tokens * spec.embedding if room.embeddings else 0
        self._values = Mirror(values, "float32", pinned=pinned)
        self._buffers = layers.buffers(room.sentences, room.tokens)
        filled = cupy().cuda.Event(disable_timing=True)  # some are filled, on the stream that is current here
        filled.record()
        self._stream.wait_event(filled)
        self._results = Mirror(self._places(room.sentences)[-1].stop, "float32", pinned=pinned)
        self._replays = Replays(self._stream) if plan.convolution == "folded" else None
        self._shape: tuple[bytes, bool] = (b"", True)  # lengths and kind of the sentences that came last
        self._graph: Any = None

    def start(
        self,
        batch: Batch,
        observe: Observe | None = None,
        begin: Any = None,
        around: Callable[[str], AbstractContextManager[None]] = named,
    ) -> CudaPart[Predictions]:
        """Enqueue copies and kernels of a part that fits; `begin` is an event to record before the kernels.

        `around` encloses the copies, and is told which they are.
        """
        if self.part is not None:
            self.part.fetch()
        with enqueueing(self._stream):
            with around("copies in"):
                part = self._upload(batch)
            if begin is not None:
                head_start()
                begin.record()
            if observe is None and self._captures:
                self._replay(part)
            else:
                self._compute(part, observe)
            with around("copies out"):
                self._download(len(part))
            self._done.record(self._stream)
        self.part = CudaPart(self, batch)
        return self.part

    def finish(self) -> None:
        """Wait for the event behind the part: another thread may be capturing the stream by now."""
        self._done.synchronize()

    def results(self, count: int) -> Predictions:
        """Those of `count` sentences, which the device is done with."""
        logits, scores, labels = self._places(count)
        found = self._results.host[: labels.stop].copy()
        shape = count, self._labels
        return Predictions(
            found[logits].reshape(shape), found[scores].reshape(shape), found[labels].view(np.int32)
        )

    def wait(self) -> None:
        """Until nothing is under way."""
        self._stream.synchronize()

    def _upload(self, batch: Batch) -> Sentences:
        if isinstance(batch, TokenBatch):
            offsets = self._offsets.upload(batch.offsets, self._stream)
            return Sentences(offsets, batch.offsets, ids=self._ids.upload(batch.ids, self._stream))
        count, _, length = batch.values.shape
        ends = np.arange(count + 1, dtype=np.int32) * np.int32(length)
        offsets = self._offsets.upload(ends, self._stream)
        return Sentences(offsets, ends, values=self._values.upload(batch.values, self._stream))

    def _compute(self, part: Sentences, observe: Observe | None) -> None:
        shape, memory = (len(part), self._labels), self._results.device
        logits, scores, labels = self._places(len(part))
        outputs = (
            memory[logits].reshape(shape),
            memory[scores].reshape(shape),
            memory[labels].view(np.int32),
        )
        self._layers(part, self._buffers, outputs, observe)

    def _places(self, count: int) -> tuple[slice, slice, slice]:
        """Where logits, scores and labels of so many sentences lie, so that one copy brings all of them."""
        size = count * self._labels
        step = ceil_div(size, _ALIGNED) * _ALIGNED
        return slice(size), slice(step, step + size), slice(2 * step, 2 * step + count)

    def _download(self, count: int) -> None:
        self._results.download(self._places(count)[-1].stop, self._stream)

    def _replay(self, part: Sentences) -> None:
        """What comes for the second time is captured as a graph; what comes again replays that.

        A folded plan's launches depend on how many sentences there are, those of others on their lengths: the
        graph of the last ones is kept.
        """
        if self._replays is not None:
            self._replays(len(part), partial(self._compute, part, None))
            return
        shape = (part.lengths.tobytes(), part.values is None)
        if shape != self._shape:
            self._shape, self._graph = shape, None
            self._compute(part, None)
            return
        if self._graph is None:
            self._graph = captured(self._stream, lambda: self._compute(part, None))
        with named("graph"):
            self._graph.launch(self._stream)
