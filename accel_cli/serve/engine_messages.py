"""What goes between the server and the process of its engine, over a stream socket.

A question is a head and its text. An answer is a size and a message; answers come in the questions' order.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from accel_cli.batches import TextPredictions
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.spawn import Warned

QUESTION = Struct("=QQQ")  # bytes of text, lines, the most tokens to compute at once
ANSWER = Struct("=Q")  # bytes of the message


@dataclass(frozen=True)
class Planned:
    """How the model will run; nothing is loaded yet."""

    plan: Plan


@dataclass(frozen=True)
class Ready:
    """The model is loaded, runs as this plan says, and computes `depth` batches at once."""

    plan: Plan
    depth: int


@dataclass(frozen=True)
class Computed:
    """What the model says of a batch, when (by time.perf_counter) it began, and the seconds that it took."""

    found: TextPredictions
    begin: float
    tokenization: float
    inference: float


@dataclass(frozen=True)
class Failed:
    """A batch failed, perhaps for want of memory; the engine lives on."""

    error: str
    full: bool


@dataclass(frozen=True)
class Gone:
    """The model cannot be loaded, or the device is lost; the process ends."""

    error: AccelError


Message = Planned | Ready | Computed | Failed | Warned | Gone
