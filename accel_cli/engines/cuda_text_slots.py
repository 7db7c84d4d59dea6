"""A text slot of the CUDA engine: room for one block of text, and how it becomes rows on the device.

The host copies bytes in and rows out, and in between asks how many lines there are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from accel_cli.cuda.buffers import empty, page_locked, zero
from accel_cli.cuda.device import cupy
from accel_cli.cuda.graphs import Replays
from accel_cli.engines.base import NOT_FINITE, TextRows
from accel_cli.engines.cuda_convolution import Sentences
from accel_cli.engines.cuda_layers import Layers
from accel_cli.engines.cuda_text import DeviceTokenizer, DeviceTokens, words_of
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import Runner, ceil_div
from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_lookup import Words
from accel_cli.kernels.text_points import text_points
from accel_cli.kernels.text_rows import THREADS, text_rows
from accel_cli.kernels.text_sums import text_sums
from accel_cli.text.row_table import RowTable
from accel_cli.text.tokenizer import Tokenizer

Doing = Callable[[str], AbstractContextManager[None]]
_BYTES_EACH = 32  # bytes a line that a slot has room for, on average: blocks of shorter ones come in pieces
_MOST_VALUES = 1 << 24  # logits and scores of a block that are kept, unless a batch has more
_MOST_BYTES = 1 << 30  # of rows: their places are int32


@dataclass(frozen=True)
class TextWork:
    """What all slots have in common: the network, words and pieces of rows on the device, and their room."""

    layers: Layers
    run: Runner
    words: Words
    at: Any  # int32: where each piece of rows begins in `pieces`, uint8
    pieces: Any
    labels: int
    longest: int  # bytes of the longest row
    sentence: tuple[int, int]  # its least and most tokens
    batch: int  # sentences that are computed at once
    size: int  # bytes of a block
    lines: int

    @staticmethod
    def of(
        tokenizer: Tokenizer, table: RowTable, layers: Layers, run: Runner, batch: int, size: int
    ) -> TextWork:
        """For blocks of `size` bytes; copies words and pieces to the device."""
        labels = len(table.before)
        pieces = [*table.before, *table.after, *table.scores]
        at = np.cumsum([0, *map(len, pieces)], dtype=np.int64).astype(np.int32)
        most = min(max(_MOST_VALUES // labels, batch), _MOST_BYTES // table.longest)
        return TextWork(
            layers=layers,
            run=run,
            words=words_of(tokenizer.vocabulary),
            at=cupy().asarray(at),
            pieces=cupy().asarray(np.frombuffer(b"".join(pieces), np.uint8)),
            labels=labels,
            longest=table.longest,
            sentence=(tokenizer.min_tokens, tokenizer.max_tokens),
            batch=batch,
            size=size,
            lines=max(1, min(size // _BYTES_EACH, most)),
        )


class CudaTextSlot:
    """A stream, and memory on both sides for a block of text and all that it becomes on the way to rows."""

    def __init__(self, work: TextWork, using: Doing, on_device: Doing) -> None:
        self._work, self._using, self._on_device = work, using, on_device
        lines, labels = work.lines, work.labels
        self._host = page_locked((work.size,), "uint8")
        self._host_counts = page_locked((len(Count) + labels,), "int32")
        self._host_rows = page_locked((lines * work.longest,), "uint8")
        self.memory = self._host.data
        self._stream = cupy().cuda.Stream(non_blocking=True)
        self._replays = Replays(self._stream)
        self._done = cupy().cuda.Event(block=True, disable_timing=True)
        self._text = empty(work.size, dtype="uint8")
        self._tokenize = DeviceTokenizer(work.words, *work.sentence, work.run, work.size, lines)
        self._activations = work.layers.buffers(min(work.batch, lines), 0)
        self._logits, self._scores = (empty(lines, labels) for _ in range(2))
        self._labels, self._points = (empty(lines, dtype="int32") for _ in range(2))
        self._blocks = empty(ceil_div(lines, THREADS), dtype="int32")
        self._seen = empty(labels, dtype="int32")
        self._rows = empty(lines * work.longest, dtype="uint8")
        ready = cupy().cuda.Event(disable_timing=True)  # what is filled here is on the current stream
        ready.record()
        self._stream.wait_event(ready)

    def rows(self, size: int) -> TextRows:
        """What becomes of the first `size` bytes of the memory. Nothing is under way afterwards."""
        try:
            return self._rows_of(size)
        except BaseException:
            with suppress(Exception), self._on_device("stopping a block of text"):
                self._stream.synchronize()
            raise

    def _rows_of(self, size: int) -> TextRows:
        lines, room = self._read(0, size), self._work.lines
        if lines <= room:
            return self._classify(lines)
        ends = np.flatnonzero(self._host[:size] == ord("\n")) + 1
        borders = dict.fromkeys([0, *ends[room - 1 :: room].tolist(), size])
        return TextRows.joined([self._classify(self._read(*piece)) for piece in pairwise(borders)])

    def _read(self, start: int, stop: int) -> int:
        """Tokenise bytes of the memory; how many lines they are."""
        size = stop - start
        with self._using("reading text"), self._stream:
            part = self._text[:size]
            part.data.copy_from_host_async(self._host[start:].ctypes.data, size, self._stream)
            self._tokens = self._tokenize(self._text, size)
            self._copy_out(self._tokens.counts, self._host_counts)
            self._done.record(self._stream)
        self._wait()
        return int(self._host_counts[Count.LINES])

    def _classify(self, lines: int) -> TextRows:
        """The rows of the lines that were read last."""
        with self._using(f"classifying {lines} lines"), self._stream:
            self._enqueue(lines, self._tokens)
            self._copy_out(self._tokens.counts, self._host_counts)
            self._copy_out(self._seen, self._host_counts[len(Count) :])
            self._copy_out(self._rows[: lines * self._work.longest], self._host_rows)
            self._done.record(self._stream)
        self._wait()
        counts = self._host_counts
        if counts[Count.BROKEN]:
            raise DeviceError(NOT_FINITE)
        return TextRows(
            rows=self._host_rows[: counts[Count.ROWS]].tobytes(),
            lines=lines,
            truncated=int(counts[Count.TRUNCATED]),
            blank=int(counts[Count.BLANK]),
            invalid=int(counts[Count.INVALID]),
            labels=counts[len(Count) :].copy(),
        )

    def _enqueue(self, lines: int, tokens: DeviceTokens) -> None:
        """The network over the lines, a batch at a time, then their rows."""
        work, run = self._work, self._work.run
        whole = lines - lines % work.batch
        for first in range(0, whole, work.batch):
            self._replays(first, partial(self._network, first, first + work.batch, tokens))
        if whole < lines:
            self._network(whole, lines, tokens)
        logits, scores = self._logits[:lines], self._scores[:lines]
        labels, points = self._labels[:lines], self._points[:lines]
        blocks = self._blocks[: ceil_div(lines, THREADS)]
        zero(self._seen)
        text_points(run, logits, scores, labels, work.at, points, blocks, self._seen, tokens.counts)
        text_sums(run, blocks, tokens.counts, Count.ROWS)
        text_rows(run, labels, points, blocks, work.at, work.pieces, self._rows)

    def _network(self, first: int, stop: int, tokens: DeviceTokens) -> None:
        """Logits, scores and labels of some lines: the same launches whatever stands in them."""
        part = Sentences(tokens.offsets[first : stop + 1], ids=tokens.ids)
        outputs = self._logits[first:stop], self._scores[first:stop], self._labels[first:stop]
        self._work.layers(part, self._activations, outputs, None)

    def _copy_out(self, array: Any, host: Any) -> None:
        array.data.copy_to_host_async(host.ctypes.data, array.nbytes, self._stream)

    def _wait(self) -> None:
        """Until the device is done, while others use the engine."""
        with self._on_device("waiting for a block of text"):
            self._done.synchronize()
