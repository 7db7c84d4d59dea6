"""The main job: inputs -> texts or tokens -> engine -> rows, in order, several batches under way at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import TextBatch, TextPredictions
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Ticket
from accel_cli.errors import InputError, RecordError
from accel_cli.model.inputs import embedding_batch, token_batch
from accel_cli.text.chunks import ArrayChunk, Chunk, TextChunk
from accel_cli.text.readers import Source
from accel_cli.text.rows import Formatter
from accel_cli.text_pipeline import TextPipeline, text_pipeline

ON_ERROR = ("replace", "fail")


@dataclass
class Summary:
    """What a run has done so far."""

    sentences: int = 0
    truncated: int = 0
    blank: int = 0
    replaced_bytes: int = 0
    failed: int = 0
    labels: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    first_failure: str | None = None


@dataclass(frozen=True)
class _Pending:
    """A batch under way, and the records it was made of."""

    ticket: Ticket
    chunk: Chunk

    @property
    def failed(self) -> dict[int, str]:
        """Why records of it have no text, by their places."""
        return self.chunk.failed if isinstance(self.chunk, TextChunk) else {}


class Pipeline:
    """Classifies sources and hands over finished rows, whole chunks at a time.

    `on_error` says what becomes of bytes that are not UTF-8 and of records without a text: with
    "replace" both are counted and the run goes on, with "fail" either ends it. With None, bytes are
    replaced and a bad record ends the run. Inside `held` rows are written and counted: an interruption
    there has to wait, so that the summary is that of the rows written.
    """

    def __init__(
        self,
        classifier: Classifier,
        formatter: Formatter,
        write: Callable[[bytes], Any],
        on_error: str | None = None,
        progress: Callable[[Summary], None] = lambda summary: None,
        held: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.summary = Summary(labels=dict.fromkeys(classifier.labels, 0))
        self._classifier = classifier
        self._formatter = formatter
        self._write = write
        self._on_error = on_error
        self._progress = progress
        self._held = held
        self._pending: deque[_Pending] = deque()
        self._closing = ExitStack()

    def run(self, sources: Iterable[Source]) -> Summary:
        """Classify every record of every source, one row each, in order; once. Raises AccelError."""
        begin = time.perf_counter()
        try:
            with self._held():
                self._write(self._formatter.header())
            try:
                for source in sources:
                    self._read(source)
            except InputError:
                self._finish(0)  # what was read before the bad record
                raise
            with self._held():
                self._write(self._formatter.footer())
        finally:
            self._closing.close()
            self.summary.seconds = time.perf_counter() - begin
        return self.summary

    @cached_property
    def _text(self) -> TextPipeline | None:
        """The way of text over the device, if the engine has one for such rows."""
        way = text_pipeline(self._classifier, self._formatter, keep_invalid=self._on_error == "fail")
        return self._closing.enter_context(way)

    def _read(self, source: Source) -> None:
        if source.kind == "text" and self._text is not None:
            self._read_blocks(source, self._text)
        else:
            self._read_chunks(source)

    def _read_blocks(self, source: Source, text: TextPipeline) -> None:
        """Bytes in, rows out: the host sees no line."""
        first = 1
        with closing(text.run(source)) as blocks:
            for block in blocks:
                found = block.found
                if block.invalid:
                    self._account_for_bytes(block.invalid, first, source)
                with self._held():
                    self._write(found.rows)
                    self.summary.truncated += found.truncated
                    self.summary.blank += found.blank
                    self.summary.replaced_bytes += found.invalid
                    self._count(found.lines, found.labels)
                self._progress(self.summary)
                first += found.lines

    def _read_chunks(self, source: Source) -> None:
        spec, plan = self._classifier.config.model, self._classifier.plan
        for chunk in source.chunks(plan.batch, (spec.embedding, spec.length)):
            ticket = (
                self._arrays(chunk, source) if isinstance(chunk, ArrayChunk) else self._texts(chunk, source)
            )
            self._pending.append(_Pending(ticket, chunk))
            # a short chunk: the input pauses, and whoever feeds it may wait for the answer
            self._finish(plan.streams if len(chunk) == plan.batch else 0)
        self._finish(0)

    def _arrays(self, chunk: ArrayChunk, source: Source) -> Ticket:
        spec = self._classifier.config.model
        last = chunk.first + len(chunk) - 1
        place = f"{source.place}, sentences {chunk.first} to {last}"
        convert = embedding_batch if chunk.embeddings else token_batch
        return self._classifier.engine.submit(convert(spec, chunk.values, place))

    def _texts(self, chunk: TextChunk, source: Source) -> Ticket:
        self._account_for_failures(chunk)
        on_host = self._classifier.plan.device == "cpu"  # which makes tokens of texts as they are
        lines = chunk.texts if on_host else chunk.batch()
        if not _is_utf8(lines.text if isinstance(lines, TextBatch) else b"\n".join(lines)):
            self._account_for_bytes(chunk.texts, chunk.first, source)
        return self._classifier.submit(self._classifier.read(lines))

    def _account_for_failures(self, chunk: TextChunk) -> None:
        """Records without a text: the first one ends the run, or all are counted."""
        if not chunk.failed:
            return
        reason = chunk.failed[min(chunk.failed)]
        if self._on_error != "replace":
            raise RecordError(
                f"{reason}; repair it, or say --on-error replace to give such rows an empty label"
            )
        self.summary.failed += len(chunk.failed)
        self.summary.first_failure = self.summary.first_failure or reason

    def _account_for_bytes(self, texts: Sequence[bytes], first: int, source: Source) -> None:
        """Bytes that are no UTF-8: the first one ends the run, or all are counted."""
        for number, text in enumerate(texts, first):
            if _is_utf8(text):
                continue
            invalid = len(text) - len(text.decode("utf-8", "ignore").encode())
            if self._on_error == "fail":
                also = " or repair half a surrogate pair (\\ud800)" if source.kind == "jsonl" else ""
                raise RecordError(
                    f"{source.at(number)}: {invalid} bytes are not UTF-8; convert the file with iconv{also},"
                    " or say --on-error replace"
                )
            self.summary.replaced_bytes += invalid

    def _finish(self, under_way: int) -> None:
        """Write the rows of the oldest batches until `under_way` of them are left."""
        while len(self._pending) > under_way:
            oldest = self._pending[0]
            found = oldest.ticket.result()
            rows = self._formatter.rows(oldest.chunk, found)
            with self._held():
                self._write(rows)
                kept = np.delete(found.labels, list(oldest.failed)) if oldest.failed else found.labels
                if isinstance(found, TextPredictions):
                    self.summary.truncated += int(np.count_nonzero(found.truncated))
                    self.summary.blank += int(np.count_nonzero(found.blank)) - len(oldest.failed)
                self._count(len(found), np.bincount(kept, minlength=len(self.summary.labels)))
                self._pending.popleft()
            self._progress(self.summary)

    def _count(self, sentences: int, labels: npt.NDArray[np.integer]) -> None:
        for name, count in zip(self.summary.labels, labels.tolist(), strict=True):
            self.summary.labels[name] += count
        self.summary.sentences += sentences


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
