"""Slots that turn blocks of text into rows on the host: what the device's must do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from accel_cli.classifier import Classifier
from accel_cli.engines.base import TextRows
from accel_cli.text.chunks import TextChunk
from accel_cli.text.rows import Formatter, TextFormatter
from accel_cli.text.tokenizer import Tokenizer


class HostSlot:
    """With `around`, which sees each block before it is classified."""

    def __init__(
        self, classifier: Classifier, formatter: Formatter, size: int, around: Callable[[bytes], None]
    ) -> None:
        self.memory = memoryview(bytearray(size))
        self._classifier, self._formatter, self._around = classifier, formatter, around

    def rows(self, size: int) -> TextRows:
        text = bytes(self.memory[:size])
        self._around(text)
        lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
        if text.endswith(b"\n"):
            lines.pop()
        encoded = self._classifier.tokenizer.encode(lines)
        found = self._classifier.engine.submit(encoded.batch).result()
        return TextRows(
            self._formatter.rows(TextChunk([], 1), found),
            len(lines),
            int(encoded.truncated.sum()),
            int(encoded.blank.sum()),
            sum(len(line) - len(line.decode("utf-8", "ignore").encode()) for line in lines),
            np.bincount(found.labels, minlength=len(self._classifier.labels)).astype(np.int32),
        )


def with_slots(
    classifier: Classifier, size: int, count: int, around: Callable[[bytes], None] = lambda text: None
) -> Any:
    """The classifier, with an engine that has `count` slots for blocks of `size` bytes."""
    engine = classifier.engine

    def text_slots(
        tokenizer: Tokenizer, formatter: Formatter, _: int
    ) -> AbstractContextManager[list[HostSlot]]:
        shown = formatter.fields if isinstance(formatter, TextFormatter) else ["text"]
        slots = range(0 if "text" in shown else count)
        return nullcontext([HostSlot(classifier, formatter, size, around) for _ in slots])

    return SimpleNamespace(
        engine=SimpleNamespace(text_slots=text_slots, submit=engine.submit, plan=engine.plan),
        tokenizer=classifier.tokenizer,
        config=classifier.config,
        plan=classifier.plan,
        labels=classifier.labels,
        read=classifier.read,
        submit=classifier.submit,
    )
