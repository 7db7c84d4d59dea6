"""What all slots for text begin with: bytes go to the device, become tokens, and pass through the network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from accel_cli.cuda.buffers import empty, page_locked
from accel_cli.cuda.device import cupy
from accel_cli.cuda.graphs import Replays
from accel_cli.cuda.stopwatch import Stopwatch
from accel_cli.engines.cuda_convolution import Sentences
from accel_cli.engines.cuda_layers import Layers
from accel_cli.engines.cuda_text import DeviceTokenizer, DeviceTokens
from accel_cli.kernels.text_lookup import Words


@dataclass(frozen=True)
class TextWork:
    """What slots have in common: the network, the words on the device, and the room of each."""

    layers: Layers
    run: Stopwatch
    words: Words
    sentence: tuple[int, int]  # its least and most tokens
    labels: int
    batch: int  # sentences that are computed at once
    size: int  # bytes of a text
    lines: int


class TextNetwork:
    """A stream, and memory on it for a text and all that it becomes, down to logits, scores and labels."""

    def __init__(self, work: TextWork) -> None:
        self._work = work
        lines, labels = work.lines, work.labels
        self.host = page_locked((work.size,), "uint8")
        self.stream = cupy().cuda.Stream(non_blocking=True)
        self._replays = Replays(self.stream)
        self._text = empty(work.size, dtype="uint8")
        self._tokenize = DeviceTokenizer(work.words, *work.sentence, work.run, work.size, lines)
        self._activations = work.layers.buffers(min(work.batch, lines), 0)
        self.logits, self.scores = (empty(lines, labels) for _ in range(2))
        self.labels = empty(lines, dtype="int32")
        ready = cupy().cuda.Event(disable_timing=True)  # what is filled here is on the current stream
        ready.record()
        self.stream.wait_event(ready)

    def read(self, start: int, stop: int) -> DeviceTokens:
        """Enqueue, on the stream, which is current: bytes of the host's memory as tokens."""
        size = stop - start
        with self._work.run.around("copies in"):
            part = self._text[:size]
            part.data.copy_from_host_async(self.host[start:].ctypes.data, size, self.stream)
        return self._tokenize(self._text, size)

    def classify(self, lines: int, tokens: DeviceTokens) -> None:
        """Enqueue the network over the first lines of what was read last, a batch at a time."""
        batch = self._work.batch
        whole = lines - lines % batch
        with self._work.run.around("network"):
            for first in range(0, whole, batch):
                self._replays(first, partial(self._batch, first, first + batch, tokens))
            if whole < lines:
                self._batch(whole, lines, tokens)

    def copy_out(self, array: Any, host: Any) -> None:
        """Enqueue a copy to page-locked memory."""
        array.data.copy_to_host_async(host.ctypes.data, array.nbytes, self.stream)

    def _batch(self, first: int, stop: int, tokens: DeviceTokens) -> None:
        """Logits, scores and labels of some lines: the same launches whatever stands in them."""
        part = Sentences(tokens.offsets[first : stop + 1], ids=tokens.ids)
        outputs = self.logits[first:stop], self.scores[first:stop], self.labels[first:stop]
        self._work.layers(part, self._activations, outputs, None)
