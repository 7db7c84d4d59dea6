"""The engine by itself, beside which a server is measured: in a process of its own, idle unless asked.

It also says what the server must answer: for every sentence the logits, once some were checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

from accel_cli.batches import Predictions
from accel_cli.bench import measure
from accel_cli.bench.check import truth
from accel_cli.bench.inputs import Sentences
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.provenance import provenance

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    """What the engine's process knows: its plan, the right answers, how many were checked and how well."""

    plan: Plan
    predictions: Predictions
    checked: int
    max_error: float
    provenance: dict[str, Any]


class EngineProcess:
    """A process with a loaded engine, idle unless it is asked. Leaving the context ends it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pool.shutdown()

    def load(
        self, config: Config, device: str, sentences: Sentences, programs: tuple[str, ...] = ()
    ) -> Known:
        """Load a model and classify all sentences. Raises AccelError if that goes wrong, or is wrong."""
        return self._call(_load, config, device, sentences, programs)

    def seconds(self) -> float:
        """The time from all sentences in memory to their labels in memory."""
        return self._call(_seconds)

    def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        try:
            return self._pool.submit(function, *arguments).result()
        except BrokenExecutor as error:
            raise AccelError("the engine's process has ended; is this machine's memory full?") from error


# What follows runs in the engine's process, whose one engine this is.
_run: Callable[[], Predictions]


def _load(config: Config, device: str, sentences: Sentences, programs: tuple[str, ...]) -> Known:
    global _run
    classifier = Classifier(config, device)
    plan = classifier.plan
    cut: Sequence[list[bytes]] = sentences.cut(plan.batch)

    def run() -> Predictions:
        return measure.read(classifier, cut)

    _run = run
    reference = truth(
        config.model, obtain_weights(config.model), plan, classifier.tokenizer.encode(cut[0]).batch
    )
    predictions = run()
    error = reference.error(f"accel on {plan.device}", predictions.logits, plan.precision)
    facts = provenance(getattr(classifier.engine, "device", None), programs)
    return Known(plan, predictions, len(reference), error, facts)


def _seconds() -> float:
    wall, _ = measure.timed(_run)
    return wall
