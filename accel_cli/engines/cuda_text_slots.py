"""A text slot of the CUDA engine: room for one block of text, and how it becomes rows on the device.

The host copies bytes in and rows out, and in between asks how many lines there are.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from accel_cli.cuda.buffers import empty, page_locked, zero
from accel_cli.cuda.device import cupy
from accel_cli.engines.base import NOT_FINITE, TextRows
from accel_cli.engines.cuda_text import DeviceTokens
from accel_cli.engines.cuda_text_network import TextNetwork, TextWork
from accel_cli.engines.cuda_turns import Turns
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import ceil_div
from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_points import text_points
from accel_cli.kernels.text_rows import THREADS, text_rows
from accel_cli.kernels.text_sums import text_sums
from accel_cli.text.row_table import RowTable

_BYTES_EACH = 32  # bytes a line that a slot has room for, on average: blocks of shorter ones come in pieces
_MOST_VALUES = 1 << 24  # logits and scores of a block that are kept, unless a batch has more
_MOST_BYTES = 1 << 30  # of rows: their places are int32


@dataclass(frozen=True)
class RowPieces:
    """The pieces of rows on the device."""

    at: Any  # int32: where each piece begins in `pieces`, uint8
    pieces: Any
    longest: int  # bytes of the longest row

    @staticmethod
    def of(table: RowTable) -> RowPieces:
        """Copy them to the device."""
        pieces = [*table.before, *table.after, *table.scores]
        at = np.cumsum([0, *map(len, pieces)], dtype=np.int64).astype(np.int32)
        joined = np.frombuffer(b"".join(pieces), np.uint8)
        return RowPieces(cupy().asarray(at), cupy().asarray(joined), table.longest)


def most_lines(table: RowTable, batch: int, size: int) -> int:
    """The lines that a slot for blocks of `size` bytes has room for."""
    most = min(max(_MOST_VALUES // len(table.before), batch), _MOST_BYTES // table.longest)
    return max(1, min(size // _BYTES_EACH, most))


class CudaTextSlot:
    """A network for text, and memory on both sides for the rows of a block."""

    def __init__(self, work: TextWork, pieces: RowPieces, turns: Turns) -> None:
        self._work, self._pieces, self._turns = work, pieces, turns
        lines, labels = work.lines, work.labels
        self._network = TextNetwork(work)
        self.memory = self._network.host.data
        self._host_counts = page_locked((len(Count) + labels,), "int32")
        self._host_rows = page_locked((lines * pieces.longest,), "uint8")
        self._done = cupy().cuda.Event(block=True, disable_timing=True)
        self._points = empty(lines, dtype="int32")
        self._blocks = empty(ceil_div(lines, THREADS), dtype="int32")
        self._seen = empty(labels, dtype="int32")
        self._rows = empty(lines * pieces.longest, dtype="uint8")

    def rows(self, size: int) -> TextRows:
        """What becomes of the first `size` bytes of the memory. Nothing is under way afterwards."""
        try:
            return self._rows_of(size)
        except BaseException:
            with suppress(Exception), self._turns.on_device("stopping a block of text"):
                self._network.stream.synchronize()
            raise

    def _rows_of(self, size: int) -> TextRows:
        lines, room = self._read(0, size), self._work.lines
        if lines <= room:
            return self._classify(lines)
        ends = np.flatnonzero(self._network.host[:size] == ord("\n")) + 1
        borders = dict.fromkeys([0, *ends[room - 1 :: room].tolist(), size])
        return TextRows.joined([self._classify(self._read(*piece)) for piece in pairwise(borders)])

    def _read(self, start: int, stop: int) -> int:
        """Tokenise bytes of the memory; how many lines they are."""
        network = self._network
        with self._turns.using("reading text"), network.stream:
            self._tokens = network.read(start, stop)
            with self._work.run.around("counts out"):
                network.copy_out(self._tokens.counts, self._host_counts)
            self._done.record(network.stream)
        self._wait()
        return int(self._host_counts[Count.LINES])

    def _classify(self, lines: int) -> TextRows:
        """The rows of the lines that were read last."""
        network = self._network
        with self._turns.using(f"classifying {lines} lines"), network.stream:
            network.classify(lines, self._tokens)
            self._write(lines, self._tokens)
            with self._work.run.around("copies out"):
                network.copy_out(self._tokens.counts, self._host_counts)
                network.copy_out(self._seen, self._host_counts[len(Count) :])
                network.copy_out(self._rows[: lines * self._pieces.longest], self._host_rows)
            self._done.record(network.stream)
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

    def _write(self, lines: int, tokens: DeviceTokens) -> None:
        """Enqueue the rows of what the network has found."""
        run, network, text = self._work.run, self._network, self._pieces
        labels, points = network.labels[:lines], self._points[:lines]
        blocks = self._blocks[: ceil_div(lines, THREADS)]
        zero(self._seen)
        found = network.logits[:lines], network.scores[:lines], labels
        text_points(run, *found, text.at, points, blocks, self._seen, tokens.counts)
        text_sums(run, blocks, tokens.counts, Count.ROWS)
        text_rows(run, labels, points, blocks, text.at, text.pieces, self._rows)

    def _wait(self) -> None:
        """Until the device is done, while others use the engine."""
        with self._turns.on_device("waiting for a block of text"):
            self._done.synchronize()
