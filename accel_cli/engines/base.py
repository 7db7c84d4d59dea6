"""What every engine offers, and the plan that it follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, Ints, Predictions, TextBatch, TextPredictions
from accel_cli.cuda.stopwatch import Span
from accel_cli.model.config import CHOICES
from accel_cli.text.rows import Formatter
from accel_cli.text.tokenizer import Tokenizer

# Called after each layer with its checkpoint name (see model.reference) and the engine's own array of it.
Observe = Callable[[str, Any], None]
NOT_FINITE = (
    "the model computed NaN or infinity; check the input embeddings and the weights,"
    " or say --precision fp32, whose numbers reach further"
)
KEYS = (*CHOICES, "batch", "streams", "kernel_debug", "kernels")


@dataclass(frozen=True)
class Plan:
    """How a model runs on a device: explicit, printable, the same for every batch.

    `batch` is the largest number of sentences that are computed at once; `streams` the number of
    batches under way at once (on a CPU: worker threads). With `kernel_debug` ("line" or "full") kernels
    carry what debuggers want; `kernels` is a folder of ready ones. What has no meaning on the device is
    empty.
    `reasons` says why each choice fell.
    """

    device: str
    precision: str
    convolution: str
    experts: str
    batch: int
    streams: int
    gemm: str = ""
    epilogue: str = ""
    copies: str = ""
    allocation: str = ""
    order: str = ""
    launch: str = ""
    kernel_debug: str = ""
    kernels: str = ""
    reasons: dict[str, str] = field(default_factory=dict, compare=False)

    def keys(self) -> dict[str, str | int]:
        """The plan without its reasons, in a fixed order."""
        values = {key: getattr(self, key) for key in KEYS}
        return {key: value for key, value in values.items() if value}

    def __str__(self) -> str:
        return " ".join(f"{key}={value}" for key, value in self.keys().items())


class Ticket(Protocol):
    """A batch on its way."""

    def result(self) -> Predictions:
        """Wait for the batch; raises what went wrong."""
        ...


class TextTicket(Protocol):
    """A batch of texts on its way."""

    def result(self) -> TextPredictions:
        """Wait for the batch; raises what went wrong."""
        ...


class TextReader(Protocol):
    """A way for texts whose words the engine itself finds."""

    def submit(self, batch: TextBatch) -> TextTicket:
        """Start a batch of any size; tickets may be collected in any order."""
        ...


@dataclass(frozen=True)
class TextRows:
    """What became of a block of text: its rows, and how many of its lines, or bytes, are of each kind.

    `labels` counts the sentences of each label, int32 [labels]; `invalid` the bytes that are not UTF-8.
    """

    rows: bytes
    lines: int
    truncated: int
    blank: int
    invalid: int
    labels: Ints

    @staticmethod
    def joined(parts: Sequence[TextRows]) -> TextRows:
        """Those of consecutive blocks as one."""
        return TextRows(
            rows=b"".join(part.rows for part in parts),
            lines=sum(part.lines for part in parts),
            truncated=sum(part.truncated for part in parts),
            blank=sum(part.blank for part in parts),
            invalid=sum(part.invalid for part in parts),
            labels=np.sum([part.labels for part in parts], axis=0, dtype=np.int32),
        )


class TextSlot(Protocol):
    """Room for one block of text at a time. Each slot may be used by a thread of its own."""

    memory: memoryview  # where a block is put

    def rows(self, size: int) -> TextRows:
        """What becomes of the first `size` bytes of the memory, whole lines. Waits; raises AccelError."""
        ...


class Engine(Protocol):
    """A model on a device. All methods may be called from several threads."""

    @property
    def plan(self) -> Plan:
        """The plan followed."""
        ...

    def submit(self, batch: Batch) -> Ticket:
        """Start a batch of any size; tickets may be collected in any order."""
        ...

    def text_reader(self, tokenizer: Tokenizer) -> TextReader | None:
        """One that gives to the bit what the tokenizer's tokens give; None if the host is needed."""
        ...

    def text_slots(
        self, tokenizer: Tokenizer, formatter: Formatter, size: int
    ) -> AbstractContextManager[Sequence[TextSlot]]:
        """Slots for blocks of `size` bytes, whose rows are the formatter's; none if the host is needed.

        They are the caller's own inside the context.
        """
        ...

    def trace(self, batch: Batch) -> dict[str, npt.NDArray[np.float32]]:
        """The checkpoints of `model.reference` that this plan computes, for one batch."""
        ...

    def stage_times(self, batch: Batch) -> list[tuple[str, float]]:
        """The seconds each stage of one batch takes, alone on the device, in order."""
        ...

    def kernel_times(self, batch: Batch) -> list[Span]:
        """Every launch and copy of one batch on the device, in order; none on a CPU."""
        ...

    def text_times(self, tokenizer: Tokenizer, formatter: Formatter, size: int, text: bytes) -> list[Span]:
        """The same of one block of text in a slot for `size` bytes; none if the host is needed for it."""
        ...

    def close(self) -> None:
        """Release what the engine holds; it cannot be used afterwards."""
        ...
