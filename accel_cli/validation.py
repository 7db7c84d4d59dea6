"""Checking engines against golden outputs, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Batch, Predictions, TokenBatch
from accel_cli.engines.base import Engine, Plan
from accel_cli.engines.open import capability_of, engine_for, free_on
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.errors import ConfigError
from accel_cli.model.config import Config
from accel_cli.model.golden import Golden
from accel_cli.model.reference import forward, layer_names
from accel_cli.model.weights import Weights
from accel_cli.numeric import Difference, compare
from accel_cli.text.tokenizer import Tokenizer

# The largest error allowed in the logits, by the measure of accel_cli.numeric.
TOLERANCE = {"fp32": 1e-4, "fp32-split": 1e-4, "tf32": 5e-3, "fp16": 5e-3, "bf16": 5e-2}
_HIDDEN = 2  # times as much in the layers before, whose values are larger, on tensor cores
_TRACED_WHOLE = 4  # sentences whose embeddings and convolutions are compared as well


@dataclass(frozen=True)
class Row:
    """One layer of one plan; `difference` is None where the plan fuses the layer into the next one."""

    layer: str
    difference: Difference | None

    @property
    def failed(self) -> bool:
        """Whether the layer is out of tolerance."""
        return self.difference is not None and not self.difference.passed


@dataclass(frozen=True)
class Case:
    """A plan and the input it is given."""

    plan: Plan
    input: str

    def __str__(self) -> str:
        return f"{self.plan} input={self.input}"


def cases(config: Config, devices: list[str]) -> list[Case]:
    """Every plan of every device for tokens, and for embeddings the one that is asked for, if it can be had.

    A folded convolution takes no embeddings, and not every device has every precision.
    """
    found = []
    for device in devices:
        capability = capability_of(device)
        plans = available_plans(
            config.model, config.plan, device, capability=capability, free=free_on(device)
        )
        found += [Case(plan, "tokens") for plan in plans]
        with suppress(ConfigError):
            plan = make_plan(config.model, config.plan, device, embeddings=True, capability=capability)
            found.append(Case(plan, "embeddings"))
    return found


def check_tokens(tokenizer: Tokenizer, golden: Golden) -> list[Row]:
    """Whether the texts become the ids and lengths of the goldens, exactly."""
    batch = tokenizer.encode(golden.texts).batch
    rows = [Row("lengths", compare(batch.lengths, golden.batch.lengths, 0.0))]
    if not rows[0].failed:
        rows.append(Row("ids", compare(batch.ids, golden.batch.ids, 0.0)))
    return rows


def check_case(config: Config, weights: Weights, golden: Golden, case: Case) -> Iterator[Row]:
    """One row a layer, in the order of the computation, then the labels of a submitted batch."""
    spec = config.model
    whole = golden.batch.rows(0, min(_TRACED_WHOLE, len(golden.batch)))
    engine = engine_for(spec, weights, case.plan, embeddings=case.input == "embeddings")
    try:
        reference = forward(spec, weights, whole)
        before = {name: reference[name] for name in layer_names(spec) if name not in golden.layers}
        yield from check_layers(engine, weights, whole, before, case)
        yield from check_layers(engine, weights, golden.batch, golden.layers, case)
        labels = submitted(engine, weights, golden.batch, case).labels
        yield Row("labels", compare(labels, golden.layers["logits"].argmax(axis=1), 0.0))
    finally:
        engine.close()


def check_layers(
    engine: Engine,
    weights: Weights,
    batch: TokenBatch,
    expected: Mapping[str, npt.NDArray[Any]],
    case: Case,
) -> Iterator[Row]:
    """A row for each of the `expected` checkpoints of a batch, in their order."""
    precision = case.plan.precision
    logits = TOLERANCE[precision]
    hidden = logits if precision == "fp32" else _HIDDEN * logits
    got = _joined([engine.trace(part) for part in _inputs(weights, batch, case)])
    for layer, values in expected.items():
        tolerance = logits if layer == "logits" else hidden
        yield Row(layer, compare(got[layer], values, tolerance) if layer in got else None)


def submitted(engine: Engine, weights: Weights, batch: TokenBatch, case: Case) -> Predictions:
    """What the engine says of a batch that takes the ordinary way through it."""
    return Predictions.concatenate([engine.submit(part).result() for part in _inputs(weights, batch, case)])


def _inputs(weights: Weights, batch: TokenBatch, case: Case) -> list[Batch]:
    """The batch as the case wants it: embeddings come in rectangles, so in runs of one length."""
    if case.input == "tokens":
        return [batch]
    edges = np.flatnonzero(np.diff(batch.lengths)) + 1
    runs: list[Batch] = []
    for start, stop in zip([0, *edges], [*edges, len(batch)], strict=True):
        runs.append(batch.rows(int(start), int(stop)).embedded(weights.embedding))
    return runs


def _joined(
    traces: list[dict[str, npt.NDArray[np.float32]]],
) -> dict[str, npt.NDArray[np.float32]]:
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}
