"""Classifying: from a request's body to the reply in the shape of its protocol."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from accel_cli.serve.bodies import Bodies
from accel_cli.serve.hugging_face import read_hugging_face
from accel_cli.serve.labels import Labels
from accel_cli.serve.questions import Found, Question
from accel_cli.serve.refusals import Refusal, invalid
from accel_cli.serve.replies import Reply
from accel_cli.serve.shared import Shared
from accel_cli.serve.tei import read_tei
from accel_cli.serve.v2 import HEADER, read_v2
from accel_cli.serve.visit import Visit

_Read: TypeAlias = Callable[[bytes], Question]


class Classify:
    """The three protocols."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._bodies = Bodies(shared.limits)
        self._labels = Labels(shared.config.model.labels)
        self._read_tei: _Read = partial(read_tei, limits=shared.limits)
        self._read_hugging_face: _Read = partial(read_hugging_face, limits=shared.limits)

    async def infer(self, visit: Visit) -> Reply:
        """Open Inference Protocol."""
        given = visit.headers.get(HEADER)
        header = None if given is None else given.decode("latin-1")
        model, limits = self._shared.config.name, self._shared.limits
        return await self._classify(visit, lambda body: read_v2(body, header, model, limits))

    async def predict(self, visit: Visit) -> Reply:
        """Text Embeddings Inference."""
        return await self._classify(visit, self._read_tei)

    async def hugging_face(self, visit: Visit) -> Reply:
        """Hugging Face's pipelines."""
        return await self._classify(visit, self._read_hugging_face)

    async def _classify(self, visit: Visit, read: _Read) -> Reply:
        """Body -> question -> queue -> answer."""
        if not self._shared.status.ready:
            raise self._shared.status.refusal()
        try:
            question = read(await self._bodies.read(visit))
        except Refusal as refusal:
            self._shared.metrics.rejected("too_large" if refusal.status == 413 else refusal.kind)
            raise
        visit.notes["inputs"] = len(question.texts)
        if self._shared.log.texts:
            visit.notes["texts"] = [line.decode("utf-8", "replace") for line in question.texts.lines()]
        found = await self._shared.batcher.ask(question.texts, visit.connection)
        self._shared.metrics.found(found)
        visit.notes["tokens"], visit.notes["truncated"] = found.tokens, found.truncated
        if found.truncated and not question.may_cut:
            raise invalid(
                f"{found.truncated} of {len(question.texts)} texts are longer than the"
                f" {self._shared.config.model.max_tokens} tokens of this model; shorten them, or allow"
                " truncation at the end"
            )
        reply = question.answer(found, self._labels)
        reply.headers += _notes(found)
        return reply


def _notes(found: Found) -> list[tuple[bytes, bytes]]:
    """Where the time went, in milliseconds, as Text Embeddings Inference says it, and what was cut."""
    times = found.times
    notes = [
        (b"x-compute-tokens", b"%d" % found.tokens),
        (b"x-tokenization-time", b"%.3f" % (times.tokenization * 1e3)),
        (b"x-queue-time", b"%.3f" % (times.queue * 1e3)),
        (b"x-inference-time", b"%.3f" % (times.inference * 1e3)),
    ]
    if found.truncated:
        notes.append((b"x-truncated", b"%d" % found.truncated))
    return notes
