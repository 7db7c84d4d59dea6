"""What goes between the server and the process of its engine, over a stream socket.

A question is a head and its text. An answer is a size and a message; answers come in the questions' order.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from accel_cli.batches import TextPredictions
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError

QUESTION = Struct("=QQ")  # bytes of text, lines
ANSWER = Struct("=Q")  # bytes of the message


@dataclass(frozen=True)
class Ready:
    """The model is loaded and has classified something."""

    plan: Plan


@dataclass(frozen=True)
class Computed:
    """What the model says of a batch, and the seconds it took."""

    found: TextPredictions
    tokenization: float
    inference: float


@dataclass(frozen=True)
class Failed:
    """A batch failed, perhaps for want of memory; the engine lives on."""

    error: str
    full: bool


@dataclass(frozen=True)
class Warned:
    """Something that the user should know; `own` if it is an AccelWarning."""

    text: str
    own: bool


@dataclass(frozen=True)
class Gone:
    """The model cannot be loaded, or the device is lost; the process ends."""

    error: AccelError


Message = Ready | Computed | Failed | Warned | Gone
