"""What the CUDA engine has for text, made when first asked for: slots for blocks, and a reader of batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from accel_cli.cuda.errors import DeviceFull
from accel_cli.cuda.stopwatch import Stopwatch
from accel_cli.engines.base import Plan
from accel_cli.engines.cuda_layers import Layers
from accel_cli.engines.cuda_text import words_of
from accel_cli.engines.cuda_text_network import TextWork
from accel_cli.engines.cuda_text_reader import CudaTextReader, text_size
from accel_cli.engines.cuda_text_slots import CudaTextSlot, RowPieces, most_lines
from accel_cli.engines.cuda_turns import Turns
from accel_cli.errors import AccelWarning
from accel_cli.kernels.text_points import MOST_LABELS
from accel_cli.text.row_table import row_table
from accel_cli.text.rows import Formatter
from accel_cli.text.tokenizer import Tokenizer

T = TypeVar("T")


class CudaTexts:
    """For as many texts at once as the plan has streams, where the device can find their words."""

    def __init__(self, layers: Layers, run: Stopwatch, plan: Plan, labels: int, turns: Turns) -> None:
        self._layers, self._run, self._plan, self._labels, self._turns = layers, run, plan, labels, turns
        # convolutions but the folded one ask the host for the lengths of sentences
        self._able = plan.convolution == "folded" and plan.allocation == "once" and plan.copies == "pinned"
        self._slots: dict[tuple[Tokenizer, Formatter, int], list[CudaTextSlot]] = {}
        self._reader: tuple[Tokenizer, CudaTextReader | None] | None = None

    @contextmanager
    def slots(self, tokenizer: Tokenizer, formatter: Formatter, size: int) -> Iterator[list[CudaTextSlot]]:
        """As many as the plan has streams; those that were used last are kept for the next one who asks."""
        key = tokenizer, formatter, size
        slots = self._slots.pop(key, None)
        if slots is None:
            self._slots = {}  # those of other rows make room
            slots = self._new_slots(tokenizer, formatter, size)
        try:
            yield slots
        finally:
            self._slots = {key: slots} if slots and self._able else {}

    def reader(self, tokenizer: Tokenizer) -> CudaTextReader | None:
        """With as many slots as the plan has streams; the last one is kept, and None if there is no room."""
        kept = self._reader
        if kept is None or kept[0] is not tokenizer:
            with self._turns.using("preparing for text"):
                kept = self._reader
                if kept is None or kept[0] is not tokenizer:
                    kept = self._reader = tokenizer, self._new_reader(tokenizer)
        return kept[1]

    def close(self) -> None:
        """Wait for what is under way and release the memory."""
        self._able, self._slots = False, {}
        if self._reader and self._reader[1]:
            self._reader[1].close()

    def _new_slots(self, tokenizer: Tokenizer, formatter: Formatter, size: int) -> list[CudaTextSlot]:
        """None for rows that show more than label and score, and where the host finds the words."""
        plan, labels = self._plan, self._labels
        table = row_table(formatter, labels) if self._able and labels <= MOST_LABELS else None
        if table is None:
            return []

        def make() -> list[CudaTextSlot]:
            work = self._work(tokenizer, size, most_lines(table, plan.batch, size))
            pieces = RowPieces.of(table)
            return [CudaTextSlot(work, pieces, self._turns) for _ in range(plan.streams)]

        return self._if_it_fits(f"allocating {plan.streams} blocks of {size} bytes of text", make) or []

    def _new_reader(self, tokenizer: Tokenizer) -> CudaTextReader | None:
        plan, size = self._plan, text_size(tokenizer, self._plan.batch)
        if not self._able or size is None:
            return None

        def make() -> CudaTextReader:
            work = self._work(tokenizer, size, plan.batch)
            return CudaTextReader(work, plan.streams, self._turns)

        return self._if_it_fits(f"allocating {plan.streams} batches of {size} bytes of text", make)

    def _work(self, tokenizer: Tokenizer, size: int, lines: int) -> TextWork:
        words, sentence = words_of(tokenizer.vocabulary), (tokenizer.min_tokens, tokenizer.max_tokens)
        return TextWork(self._layers, self._run, words, sentence, self._labels, self._plan.batch, size, lines)

    def _if_it_fits(self, doing: str, make: Callable[[], T]) -> T | None:
        """What is made while the engine is held; None, and it is said, if the device has no memory for it."""
        try:
            with self._turns.using(doing):
                return make()
        except DeviceFull as error:
            warnings.warn(
                f"{error}; the host finds the words instead. Free memory on the device, or say a smaller"
                " --batch",
                AccelWarning,
                stacklevel=4,
            )
            return None
