"""Classifying: from a request's body to the reply in the shape of its protocol."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Mapping
from functools import partial

from starlette.requests import ClientDisconnect, Request

from accel_cli.serve import v2
from accel_cli.serve.bodies import Bodies
from accel_cli.serve.connection import KEY, Connection
from accel_cli.serve.hugging_face import read_hugging_face
from accel_cli.serve.questions import Found, Question
from accel_cli.serve.refusals import Refusal, invalid
from accel_cli.serve.replies import Reply
from accel_cli.serve.shared import Shared
from accel_cli.serve.tei import read_tei


class Classify:
    """The three protocols."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._bodies = Bodies(shared.limits)

    async def infer(self, request: Request) -> Reply:
        """Open Inference Protocol."""
        model = self._shared.named(request)
        header = request.headers.get(v2.HEADER)
        return await self._classify(
            request, lambda body: v2.read_v2(body, header, model, self._shared.limits)
        )

    async def predict(self, request: Request) -> Reply:
        """Text Embeddings Inference."""
        return await self._classify(request, partial(read_tei, limits=self._shared.limits))

    async def hugging_face(self, request: Request) -> Reply:
        """Hugging Face's pipelines."""
        if "name" in request.path_params:
            self._shared.named(request)
        return await self._classify(request, partial(read_hugging_face, limits=self._shared.limits))

    async def _classify(self, request: Request, read: Callable[[bytes], Question]) -> Reply:
        """Body -> question -> queue -> answer."""
        if not self._shared.status.ready:
            raise self._shared.status.refusal()
        try:
            question = read(await self._bodies.read(request))
        except Refusal as refusal:
            self._shared.metrics.rejected("too_large" if refusal.status == 413 else refusal.kind)
            raise
        notes = request.scope["accel.notes"] = {"inputs": len(question.texts)}
        if self._shared.log.texts:
            notes["texts"] = [text.decode("utf-8", "replace") for text in question.texts]
        found = await self._ask(request, question)
        self._shared.metrics.found(found)
        notes |= {"tokens": found.tokens, "truncated": found.truncated}
        if found.truncated and not question.may_cut:
            raise invalid(
                f"{found.truncated} of {len(question.texts)} texts are longer than the"
                f" {self._shared.config.model.max_tokens} tokens of this model; shorten them, or allow"
                " truncation at the end"
            )
        answer = question.answer(found, self._shared.config.model.labels)
        return Reply(
            answer.body, media_type=answer.media_type, headers={**answer.headers, **self._notes(found)}
        )

    async def _ask(self, request: Request, question: Question) -> Found:
        """Wait for the engine; if the client leaves, the question is withdrawn."""
        future = self._shared.batcher.submit(question.texts)
        connection: Connection = request.scope[KEY]
        forget = connection.when_lost(future.cancel)
        try:
            return await future
        except CancelledError:
            if connection.lost:
                raise ClientDisconnect from None
            raise
        finally:
            forget()

    def _notes(self, found: Found) -> Mapping[str, str]:
        """Where the time went, in milliseconds, as Text Embeddings Inference says it, and what was cut."""
        times = found.times
        cut = {"x-truncated": str(found.truncated)} if found.truncated else {}
        return {
            **cut,
            "x-compute-tokens": str(found.tokens),
            "x-tokenization-time": f"{times.tokenization * 1e3:.3f}",
            "x-queue-time": f"{times.queue * 1e3:.3f}",
            "x-inference-time": f"{times.inference * 1e3:.3f}",
        }
