"""`accel bench --suite latency`: one sentence at a time, from what a caller has to its label."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from accel_cli.batches import Floats
from accel_cli.bench.check import truth
from accel_cli.bench.inputs import TOKENS, obtain_sentences
from accel_cli.bench.latency_report import LatencyReport, Row
from accel_cli.bench.peers import peers, require_torch
from accel_cli.classifier import Classifier
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights

Ask = Callable[[], object]
_PIECES = 8  # in which the ways take turns


@dataclass(frozen=True)
class Job:
    """What to measure: `count` sentences of the file `path`, or of `tokens` generated words on average."""

    count: int
    path: str | None = None
    tokens: int = TOKENS
    peer: str | None = None


@dataclass(frozen=True)
class Way:
    """A program and what it is given; `asks` is a call for each sentence, which ends with the label."""

    program: str
    plan: str
    input: str
    asks: Sequence[Ask]
    error: float


def run(config: Config, device: str, job: Job, tell: Callable[[str], None]) -> LatencyReport:
    """Measure a configuration on `device`. Raises AccelError, before any timing if a result is wrong."""
    if job.peer:
        require_torch()
    sentences = obtain_sentences(config.model, job.path, job.count, job.tokens)
    with Classifier(config, device) as classifier:
        batch = classifier.tokenizer.encode(sentences.lines).batch
        alone = [batch.rows(number, number + 1) for number in range(len(batch))]
        weights = obtain_weights(config.model)
        expected = truth(config.model, weights, classifier.plan, batch)
        name, precision = f"accel on {classifier.plan.device}", classifier.plan.precision
        found = [classifier.predict_ids(one.ids[None]).logits for one in alone[: len(expected)]]
        error = expected.error(name, np.concatenate(found), precision)
        tell(f"checked {len(expected)} sentences against float64: largest error {error:.1e}")
        ids = [partial(classifier.predict_ids, one.ids[None]) for one in alone]
        text = [partial(classifier.predict, [line]) for line in sentences.lines]
        plan = str(classifier.plan)
        ways = [Way("accel", plan, "ids", ids, error), Way("accel", plan, "text", text, error)]
        others = peers(job.peer, config.model, weights, classifier.plan, alone[0], tell) if job.peer else []
        for peer in others:
            asked = [peer.prepared(one) for one in alone]
            logits = np.concatenate([ask() for ask in asked[: len(expected)]])
            error = expected.error(peer.name, logits, peer.plan.precision)
            ways.append(Way(peer.name, str(peer.plan), "ids", [*map(_labelled, asked)], error))
        tell(f"asking for {len(alone)} sentences, one at a time")
        rows = [
            Row(way.program, way.plan, way.input, times, way.error)
            for way, times in zip(ways, _in_turns([way.asks for way in ways]), strict=True)
        ]
    gpu = getattr(classifier.engine, "device", None)
    programs = tuple({peer.version for peer in others})
    return LatencyReport(config.name, classifier.plan, gpu, programs, sentences.origin, rows)


def _labelled(logits: Callable[[], Floats]) -> Ask:
    return lambda: int(logits()[0].argmax())


def _in_turns(ways: Sequence[Sequence[Ask]]) -> list[list[float]]:
    """The seconds of each call of each way, after one round that warms up; pieces of all ways in turn."""
    times: list[list[float]] = [[] for _ in ways]
    for asks in ways:
        for ask in asks:
            ask()
    size = -(-len(ways[0]) // _PIECES)
    for start in range(0, len(ways[0]), size):
        for asks, found in zip(ways, times, strict=True):
            for ask in asks[start : start + size]:
                begin = time.perf_counter()
                ask()
                found.append(time.perf_counter() - begin)
    return times
