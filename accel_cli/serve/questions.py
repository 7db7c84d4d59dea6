"""What a request asks, whatever its protocol, and what the model found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from accel_cli.batches import Predictions, TextBatch
from accel_cli.serve.labels import Labels
from accel_cli.serve.limits import Limits
from accel_cli.serve.refusals import Refusal, empty, invalid, malformed
from accel_cli.serve.replies import Reply


@dataclass(slots=True)
class Times:
    """Seconds that a request spent in each stage; in the queue, until its first text left it."""

    tokenization: float = 0.0
    queue: float = 0.0
    inference: float = 0.0


@dataclass(slots=True)
class Found:
    """What the model says of a request's texts, how many of them were cut, and the tokens of all."""

    predictions: Predictions
    truncated: int
    tokens: int
    times: Times


class Question(Protocol):
    """A request that has been read."""

    @property
    def texts(self) -> TextBatch:
        """What is to be classified."""
        ...

    @property
    def may_cut(self) -> bool:
        """Whether a text that is too long may be cut at its end."""
        ...

    def answer(self, found: Found, labels: Labels) -> Reply:
        """The reply in the protocol's shape."""
        ...


def checked_count(count: int, limits: Limits) -> int:
    """A number of texts, if one request may have so many."""
    if count == 0:
        raise empty()
    if count > limits.max_client_batch:
        raise invalid(
            f"{count} texts in one request, and at most {limits.max_client_batch} are taken; send them in"
            " several requests"
        )
    return count


def encoded(texts: Sequence[Any], place: str, refuse: Callable[[str], Refusal] = malformed) -> TextBatch:
    """JSON strings as UTF-8, each checked to be one."""
    try:
        return TextBatch.of([text.encode() for text in texts])
    except UnicodeEncodeError as error:
        raise malformed(f"{place}: a text holds half a surrogate pair, which is no character") from error
    except AttributeError:
        wrong = next(text for text in texts if not isinstance(text, str))
        raise refuse(f"{place}: a text must be a string, got {shown(wrong)}") from None


def shown(value: object) -> str:
    """A JSON value in a message, never long."""
    kinds = {dict: "an object", list: "a list", type(None): "null"}
    return kinds.get(type(value)) or repr(value)[:40]
