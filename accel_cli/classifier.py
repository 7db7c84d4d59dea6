"""The way in from Python: load a model, give it sentences, get labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, Floats, Predictions, TextBatch, TextPredictions
from accel_cli.engines.base import Plan, TextTicket, Ticket
from accel_cli.engines.open import open_engine
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config, load_config
from accel_cli.model.inputs import embedding_batch, token_batch
from accel_cli.stages import Staged, unwatched
from accel_cli.text.tokenizer import Encoded, Tokenizer
from accel_cli.text.vocabulary import load_vocabulary

SHORT = 2048  # bytes; in a text that has no more the host finds the words, which saves launches
_CLOSED = "the classifier is closed; load another one"


@dataclass(frozen=True, eq=False)  # arrays have no one equality
class Classification:
    """What a model says of each of n sentences.

    `labels` are names, str [n]; `scores` the softmax of the `logits`, both float32 [n, labels].
    """

    labels: npt.NDArray[np.str_]
    scores: Floats
    logits: Floats

    def __len__(self) -> int:
        return len(self.labels)


class _EncodedTicket:
    """Texts that the engine has as tokens, in some parts."""

    def __init__(self, encoded: Encoded, parts: Sequence[Ticket]) -> None:
        self._encoded, self._parts = encoded, parts

    def result(self) -> TextPredictions:
        """Wait for all parts."""
        found = Predictions.concatenate([part.result() for part in self._parts])
        encoded = self._encoded
        of_texts = encoded.batch.lengths, encoded.truncated, encoded.blank
        return TextPredictions(found.logits, found.scores, found.labels, *of_texts)


class Classifier:
    """A model on a device.

    One classifier may be used from several threads at once; it must not be used in a process forked
    after it was loaded (start such processes with the `spawn` method, and load there).
    """

    def __init__(
        self, config: Config, device: str = "auto", *, embeddings: bool = False, staged: Staged = unwatched
    ) -> None:
        spec = config.model
        self.config = config
        self.tokenizer = Tokenizer(
            load_vocabulary(spec.vocabulary, spec.vocabulary_size), spec.min_tokens, spec.max_tokens
        )
        staged("vocabulary")
        self.engine = open_engine(config, device, embeddings=embeddings, staged=staged)
        self._embeddings = embeddings
        self._closed = False
        self._names = np.array(spec.labels)

    @classmethod
    def load(
        cls,
        config: str | Path = "sentiment",
        *,
        device: str = "auto",
        precision: str | None = None,
        batch: int | None = None,
        streams: int | None = None,
        kernels: str | Path | None = None,
        embeddings: bool = False,
    ) -> Classifier:
        """Load the model of a configuration, a file or a packaged name.

        `device` is auto, cpu, cuda or cuda:N. `precision`, `batch` and `streams` override the plan of
        the configuration; `kernels` is a folder that `accel compile` made, for CUDA. `embeddings` prepares
        for `predict_embeddings`. Raises AccelError.
        """
        loaded = load_config(config)
        sizes = {"precision": precision, "batch": batch, "streams": streams}
        plan = loaded.plan.overridden(**sizes, kernels=kernels and str(kernels))
        return cls(replace(loaded, plan=plan), device, embeddings=embeddings)

    @property
    def plan(self) -> Plan:
        """How the model runs."""
        return self.engine.plan

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels, in the order of scores and logits."""
        return self.config.model.labels

    def predict(self, texts: Iterable[str | bytes]) -> Classification:
        """Classify sentences. A blank one, or one without a known word, gets what the model says of it."""
        if isinstance(texts, str | bytes):
            raise TypeError("predict takes a list of texts; for a single one, say predict([text])")
        lines = _lines(texts)
        size = self.plan.batch
        cut = (lines[start : start + size] for start in range(0, len(lines), size))
        return self._classify(self.submit(self.read(part)) for part in cut)

    def predict_ids(self, ids: npt.NDArray[np.integer]) -> Classification:
        """Classify token ids, integers [n, length]. Raises InputError if they do not fit."""
        return self._classify(self._started(token_batch(self.config.model, np.asarray(ids))))

    def predict_embeddings(self, values: npt.NDArray[np.floating]) -> Classification:
        """Classify embeddings, floats [n, dimension, length]. Raises InputError if they do not fit."""
        if not self._embeddings:
            raise UsageError("this classifier was loaded for texts; load it with embeddings=True")
        return self._classify(self._started(embedding_batch(self.config.model, np.asarray(values))))

    def read(self, lines: Sequence[bytes] | TextBatch) -> TextBatch | Encoded:
        """Sentences as `submit` takes them: as text if the device finds their words, or else as tokens.

        Either way the same is computed, to the bit.
        """
        as_text = _is_long(lines) and self.engine.text_reader(self.tokenizer) is not None
        if isinstance(lines, TextBatch):
            return lines if as_text else self.tokenizer.encode(lines.lines())
        return TextBatch.of(lines) if as_text else self.tokenizer.encode(lines)

    def submit(self, batch: TextBatch | Encoded, most_tokens: int | None = None) -> TextTicket:
        """Start what was read, at least one sentence.

        Of tokens that the host has found at most `most_tokens` go to the engine at once, or one sentence.
        """
        if isinstance(batch, TextBatch):
            reader = self.engine.text_reader(self.tokenizer)
            assert reader is not None, "there was one to read it for"
            return reader.submit(batch)
        parts = [batch.batch] if most_tokens is None else batch.batch.parts(most_tokens)
        return _EncodedTicket(batch, [self.engine.submit(part) for part in parts])

    def close(self) -> None:
        """Release the device; the classifier cannot be used afterwards, and what runs fails: UsageError."""
        self._closed = True
        self.engine.close()

    def __enter__(self) -> Classifier:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _started(self, batch: Batch) -> Iterator[Ticket]:
        """A batch in parts of the plan's size, each started when it is asked for."""
        size = self.plan.batch
        if 0 < len(batch) <= size:  # the usual case of one sentence, at no cost
            yield self.engine.submit(batch)
            return
        for start in range(0, len(batch), size):
            yield self.engine.submit(batch.rows(start, min(start + size, len(batch))))

    def _classify(self, started: Iterable[Ticket]) -> Classification:
        """What all these say, which are started here."""
        if self._closed:
            raise UsageError(_CLOSED)
        try:
            tickets = list(started)
            parts = [ticket.result() for ticket in tickets]
        except Exception as error:
            if self._closed and not isinstance(error, AccelError):  # another thread closed it meanwhile
                raise UsageError(_CLOSED) from error
            raise
        if not parts:
            nothing = np.zeros((0, len(self.labels)), dtype=np.float32)
            return Classification(self._names[:0], nothing, nothing)
        found = Predictions.concatenate(parts)
        return Classification(self._names[found.labels], found.scores, found.logits)


def _is_long(lines: Sequence[bytes] | TextBatch) -> bool:
    """Whether they are more than a short text, a newline behind each; many lines are, whatever they hold."""
    if isinstance(lines, TextBatch):
        return len(lines.text) > SHORT
    return len(lines) > SHORT or sum(map(len, lines)) + len(lines) > SHORT


def _lines(texts: Iterable[str | bytes]) -> list[bytes]:
    """Texts as bytes."""
    given = list(texts)
    if set(map(type, given)) == {str}:
        with suppress(UnicodeEncodeError):  # half a surrogate pair
            return list(map(str.encode, given))  # type: ignore[arg-type]
    return [text if isinstance(text, bytes) else _line(number, text) for number, text in enumerate(given)]


def _line(number: int, text: str) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    raise TypeError(f"predict takes str or bytes, but text {number} is a {type(text).__name__}")
