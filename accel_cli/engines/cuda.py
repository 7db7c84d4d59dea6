"""The CUDA engine: a ring of slots, each with its stream, pinned staging and device buffers.

Batches are cut so that each part fits a slot; parts go to the slots in turn, so that the copies of
one overlap with the kernels of another. Nothing is allocated (unless the plan's allocation is per_call),
compiled or synchronised between the start and the end of a steady run, but for the wait when a slot is
still busy. What text needs comes to be with the first text (`cuda_texts.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, EmbeddingBatch, Predictions, TokenBatch
from accel_cli.cuda.device import cupy, facts, index_of
from accel_cli.cuda.errors import DeviceFull, DeviceLost
from accel_cli.cuda.launcher import Launcher
from accel_cli.cuda.ranges import named
from accel_cli.cuda.stopwatch import Span, Stopwatch
from accel_cli.engines.base import Observe, Plan
from accel_cli.engines.cuda_layers import Layers
from accel_cli.engines.cuda_slots import CudaPart, Room, Slot
from accel_cli.engines.cuda_text_reader import CudaTextReader
from accel_cli.engines.cuda_text_slots import CudaTextSlot
from accel_cli.engines.cuda_texts import CudaTexts
from accel_cli.engines.cuda_turns import CudaTicket, Turns
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.values import Values
from accel_cli.errors import AccelWarning, DeviceError
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Weights
from accel_cli.stages import Staged, unwatched
from accel_cli.text.rows import Formatter
from accel_cli.text.tokenizer import Tokenizer


class CudaEngine:
    """A model on a CUDA device. Safe to use from several threads: one at a time enqueues; all may wait."""

    def __init__(
        self,
        spec: ModelSpec,
        weights: Weights,
        plan: Plan,
        *,
        embeddings: bool = False,
        staged: Staged = unwatched,
    ) -> None:
        self._spec = spec
        index = index_of(plan.device)
        self._turns = Turns(index)
        self.device = facts(index)
        self._embeddings = embeddings
        with self._turns.using("loading the weights"):
            launcher = Launcher(self.device, debug=plan.kernel_debug, kernels=plan.kernels)
            self.loading = launcher.loading
            self._run = Stopwatch(launcher)
            tiles = Tiles(self.device)
            self._layers = Layers(spec, weights, plan, tiles, self._run, embeddings=embeddings)
            cupy().cuda.get_current_stream().synchronize()  # no slot's stream waits for it
            cupy().get_default_memory_pool().free_all_blocks()  # of what was needed to load only
        staged("layers", self.loading.seconds)
        self._slots, self._room = self._allocate(plan)
        staged("memory", self.loading.seconds)
        self.plan = replace(plan, batch=self._room.sentences)
        self._next = self._started = 0
        self._texts = CudaTexts(self._layers, self._run, self.plan, len(spec.labels), self._turns)

    def _allocate(self, plan: Plan) -> tuple[list[Slot], Room]:
        """All slots and the room of each; with `allocation: per_call` one is tried, and none is kept.

        With a smaller batch, said once, when the device has no memory for the one planned.
        """
        batch, count = plan.batch, plan.streams if plan.allocation == "once" else 1
        while True:
            room = Room.of(self._spec, batch, embeddings=self._embeddings)
            try:
                with self._turns.using(f"allocating {count} slots of {batch} sentences"):
                    slots = [Slot(self._spec, self._layers, plan, room) for _ in range(count)]
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
        return (slots if plan.allocation == "once" else []), room

    def submit(self, batch: Batch) -> CudaTicket[Predictions]:
        """Start a batch of at least one sentence; waits while all slots are busy."""
        with self._turns.using("running a batch"):
            return CudaTicket(self._turns, [self._start(part) for part in self._parts(batch)])

    def text_reader(self, tokenizer: Tokenizer) -> CudaTextReader | None:
        """With as many slots as the plan has streams, made when it is first asked for."""
        return self._texts.reader(tokenizer)

    def text_slots(
        self, tokenizer: Tokenizer, formatter: Formatter, size: int
    ) -> AbstractContextManager[list[CudaTextSlot]]:
        """As many as the plan has streams; those that were used last are kept for the next one who asks."""
        return self._texts.slots(tokenizer, formatter, size)

    def trace(self, batch: Batch) -> dict[str, npt.NDArray[np.float32]]:
        """Every checkpoint of one batch."""
        kept: dict[str, list[npt.NDArray[np.float32]]] = {}
        with self._turns.using("tracing a batch"):
            for part in self._parts(batch):

                def keep(name: str, value: Any, part: Batch = part) -> None:
                    array = value.floats() if isinstance(value, Values) else cupy().asnumpy(value)
                    if name.startswith("convolution."):
                        inside = self._windows(part, int(name.partition(".")[2]))
                        array = array[inside] if len(array) == len(inside) else array
                    kept.setdefault(name, []).append(array)

                self._start(part, keep).fetch()
        return {name: np.concatenate(arrays) for name, arrays in kept.items()}

    def stage_times(self, batch: Batch) -> list[tuple[str, float]]:
        """Seconds on the device for each layer, over the parts of a batch, one after the other."""
        times: dict[str, float] = {}
        with self._turns.using("timing a batch"):
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

    def kernel_times(self, batch: Batch) -> list[Span]:
        """Every launch and copy of a batch in turn on one stream, without a graph."""
        with self._turns.using("profiling a batch"), self._run.measuring() as spans:
            for part in self._parts(batch):
                self._start(part, self._run.observe, around=self._run.around).fetch()
        return spans

    def text_times(self, tokenizer: Tokenizer, formatter: Formatter, size: int, text: bytes) -> list[Span]:
        """Every launch and copy of a block of text, its network as one; none if the host is needed for it."""
        with self.text_slots(tokenizer, formatter, size) as slots:
            if not slots:
                return []
            slot = slots[0]
            slot.memory[: len(text)] = text
            for _ in range(2):  # as it is, then captured
                slot.rows(len(text))
            with self._turns.using("profiling a block of text"), self._run.measuring() as spans:
                slot.rows(len(text))
            return spans

    def close(self) -> None:
        """Wait for what is under way and release the device's memory."""
        with suppress(DeviceLost), self._turns.using("closing"):  # what is lost needs no release
            for slot in self._slots:
                slot.wait()
            self._slots = []
            self._texts.close()

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """The batch in consecutive parts that each fit a slot."""
        room, start = self._room, 0
        if isinstance(batch, EmbeddingBatch) and not room.embeddings:
            raise DeviceError("this engine has no room for embeddings; open it with embeddings=True")
        if len(batch) <= room.sentences and batch.tokens <= room.tokens:  # the usual case, at no cost
            yield batch
            return
        while start < len(batch):
            stop = min(start + room.sentences, len(batch))
            if isinstance(batch, TokenBatch):
                most = int(batch.offsets[start]) + room.tokens
                stop = min(stop, int(np.searchsorted(batch.offsets, most, side="right")) - 1)
            else:
                stop = min(stop, start + room.tokens // batch.values.shape[2])
            yield batch.rows(start, stop)
            start = stop

    def _start(
        self,
        batch: Batch,
        observe: Observe | None = None,
        begin: Any = None,
        around: Callable[[str], AbstractContextManager[None]] = named,
    ) -> CudaPart[Predictions]:
        """Enqueue a part on the next slot's stream; with `allocation: per_call` on a slot of its own."""
        self._started += 1
        with named(f"batch {self._started} of {len(batch)} sentences"):
            if self.plan.allocation == "per_call":
                with cupy().cuda.using_allocator(None):
                    slot = Slot(self._spec, self._layers, self.plan, self._room)
                    return slot.start(batch, observe, begin, around)
            slot = self._slots[self._next]
            self._next = (self._next + 1) % len(self._slots)
            return slot.start(batch, observe, begin, around)

    def _windows(self, batch: Batch, width: int) -> npt.NDArray[np.bool_]:
        """Which tokens begin a window inside their sentence; some plans compute for every token."""
        if isinstance(batch, EmbeddingBatch):
            sentences, _, tokens = batch.values.shape
            return np.tile(np.arange(tokens) <= tokens - width, sentences)
        ends = np.repeat(batch.offsets[1:], batch.lengths)
        return np.arange(len(batch.ids)) <= ends - width
