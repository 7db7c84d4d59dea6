"""Batches of text through the CUDA engine: a ring of slots, from lines to predictions.

How many lines a batch has is known, so that nothing is waited for between the copies in and the copies out.
"""

from __future__ import annotations

import numpy as np

from accel_cli.batches import TextBatch, TextPredictions
from accel_cli.cuda.buffers import page_locked
from accel_cli.cuda.device import cupy
from accel_cli.engines.cuda_slots import CudaPart, enqueueing
from accel_cli.engines.cuda_text_network import TextNetwork, TextWork
from accel_cli.engines.cuda_turns import CudaTicket, Turns
from accel_cli.kernels.text_common import MOST_BYTES
from accel_cli.text.tokenizer import Tokenizer

_BYTES_EACH = 256  # bytes a line that a slot has room for, on average
_MOST_BYTES = 64 << 20  # of usual batches


def text_size(tokenizer: Tokenizer, lines: int) -> int | None:
    """The bytes of a slot for so many lines, or None if they are too many to be counted.

    One line fits with all bytes that are looked at, a byte that tells that there are more, and its newline.
    """
    size = max(min(lines * _BYTES_EACH, _MOST_BYTES), tokenizer.max_bytes + 2)
    return size if size + lines * tokenizer.min_tokens <= MOST_BYTES else None


class TextBatchSlot:
    """A network for text, and memory for what is copied back of a part of a batch."""

    def __init__(self, work: TextWork) -> None:
        lines, labels = work.lines, work.labels
        self.part: CudaPart[TextPredictions] | None = None
        self._around = work.run.around
        self._network = TextNetwork(work)
        self._done = cupy().cuda.Event(disable_timing=True)
        self._logits, self._scores = (page_locked((lines, labels), "float32") for _ in range(2))
        self._labels = page_locked((lines,), "int32")
        self._offsets = page_locked((lines + 1,), "int32")
        self._truncated, self._blank = (page_locked((lines,), "uint8") for _ in range(2))

    def start(self, batch: TextBatch) -> CudaPart[TextPredictions]:
        """Enqueue copies and kernels of a part that fits; waits for the one before."""
        if self.part is not None:
            self.part.fetch()
        network, size, lines = self._network, len(batch.text), len(batch)
        network.host[:size] = np.frombuffer(batch.text, np.uint8)
        with enqueueing(network.stream):
            tokens = network.read(0, size)
            network.classify(lines, tokens)
            with self._around("copies out"):
                network.copy_out(network.logits[:lines], self._logits)
                network.copy_out(network.scores[:lines], self._scores)
                network.copy_out(network.labels[:lines], self._labels)
                network.copy_out(tokens.offsets[: lines + 1], self._offsets)
                network.copy_out(tokens.truncated[:lines], self._truncated)
                network.copy_out(tokens.blank[:lines], self._blank)
            self._done.record(network.stream)
        self.part = CudaPart(self, batch)
        return self.part

    def finish(self) -> None:
        """Wait for the event behind the part: another thread may be capturing the stream by now."""
        self._done.synchronize()

    def results(self, count: int) -> TextPredictions:
        """Those of `count` lines, which the device is done with."""
        return TextPredictions(
            self._logits[:count].copy(),
            self._scores[:count].copy(),
            self._labels[:count].copy(),
            np.diff(self._offsets[: count + 1]),
            self._truncated[:count].astype(bool),
            self._blank[:count].astype(bool),
        )

    def wait(self) -> None:
        """Until nothing is under way."""
        self._network.stream.synchronize()


class CudaTextReader:
    """Takes batches of text to its slots in turn: copies of one overlap with the kernels of another."""

    def __init__(self, work: TextWork, slots: int, turns: Turns) -> None:
        self._work, self._turns = work, turns
        self._slots = [TextBatchSlot(work) for _ in range(slots)]
        self._next = 0

    def submit(self, batch: TextBatch) -> CudaTicket[TextPredictions]:
        """Start a batch of at least one line; waits while all slots are busy."""
        with self._turns.using("running a batch of text"):
            parts = batch.parts(self._work.lines, self._work.size)
            return CudaTicket(self._turns, [self._start(part) for part in parts])

    def close(self) -> None:
        """Wait for what is under way and release the memory."""
        for slot in self._slots:
            slot.wait()
        self._slots = []

    def _start(self, part: TextBatch) -> CudaPart[TextPredictions]:
        slot = self._slots[self._next]
        self._next = (self._next + 1) % len(self._slots)
        return slot.start(part)
