"""The way in from Python: load a model, give it sentences, get labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, Floats, Predictions
from accel_cli.engines.base import Plan
from accel_cli.engines.open import open_engine
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config, load_config
from accel_cli.model.inputs import embedding_batch, token_batch
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary

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


class Classifier:
    """A model on a device.

    One classifier may be used from several threads at once; it must not be used in a process forked
    after it was loaded (start such processes with the `spawn` method, and load there).
    """

    def __init__(self, config: Config, device: str = "auto", *, embeddings: bool = False) -> None:
        spec = config.model
        self.config = config
        self.tokenizer = Tokenizer(
            load_vocabulary(spec.vocabulary, spec.vocabulary_size), spec.min_tokens, spec.max_tokens
        )
        self.engine = open_engine(config, device, embeddings=embeddings)
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
        lines = [_line(number, text) for number, text in enumerate(texts)]
        size = self.plan.batch
        batches = [self.tokenizer.encode(lines[i : i + size]).batch for i in range(0, len(lines), size)]
        return self._classify(batches)

    def predict_ids(self, ids: npt.NDArray[np.integer]) -> Classification:
        """Classify token ids, integers [n, length]. Raises InputError if they do not fit."""
        return self._classify(self._cut(token_batch(self.config.model, np.asarray(ids))))

    def predict_embeddings(self, values: npt.NDArray[np.floating]) -> Classification:
        """Classify embeddings, floats [n, dimension, length]. Raises InputError if they do not fit."""
        if not self._embeddings:
            raise UsageError("this classifier was loaded for texts; load it with embeddings=True")
        return self._classify(self._cut(embedding_batch(self.config.model, np.asarray(values))))

    def close(self) -> None:
        """Release the device; the classifier cannot be used afterwards, and what runs fails: UsageError."""
        self._closed = True
        self.engine.close()

    def __enter__(self) -> Classifier:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _cut(self, batch: Batch) -> list[Batch]:
        size = self.plan.batch
        return [batch.rows(i, min(i + size, len(batch))) for i in range(0, len(batch), size)]

    def _classify(self, batches: Sequence[Batch]) -> Classification:
        if self._closed:
            raise UsageError(_CLOSED)
        if not batches:
            nothing = np.zeros((0, len(self.labels)), dtype=np.float32)
            return Classification(self._names[:0], nothing, nothing)
        try:
            tickets = [self.engine.submit(batch) for batch in batches]
            found = Predictions.concatenate([ticket.result() for ticket in tickets])
        except Exception as error:
            if self._closed and not isinstance(error, AccelError):  # another thread closed it meanwhile
                raise UsageError(_CLOSED) from error
            raise
        return Classification(self._names[found.labels], found.scores, found.logits)


def _line(number: int, text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"predict takes str or bytes, but text {number} is a {type(text).__name__}")
