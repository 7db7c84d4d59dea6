"""The clockwork of accel bench: turns, sums, and how much is under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from accel_cli.batches import Predictions, TokenBatch
from accel_cli.bench import measure
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Plan
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.reference import forward

DIRECT = Plan("cpu", "fp32", "direct", "separate", 512, 1)


def test_runs_take_turns() -> None:
    calls: list[str] = []
    found = measure.in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert calls == ["a", "b"] * 3
    assert [len(found[name].seconds) for name in "ab"] == [len(found[name].cpu) for name in "ab"] == [3, 3]


def test_together_adds_repeat_by_repeat() -> None:
    assert measure.together([measure.Timing((1.0, 2.0)), measure.Timing((10.0, 20.0))]).seconds == (
        11.0,
        22.0,
    )


def test_predictions_come_in_order(tiny: Config) -> None:
    with Classifier(tiny, "cpu") as classifier:
        lines = [b"good " * (n % 7) + b"film w%d" % n for n in range(23)]
        whole = classifier.tokenizer.encode(lines).batch
        parts = [whole.rows(i, min(i + 4, 23)) for i in range(0, 23, 4)]
        got = measure.predict(classifier.engine, parts)
        expected = forward(tiny.model, obtain_weights(tiny.model), whole)["logits"]
    np.testing.assert_allclose(got.logits, expected, atol=1e-5)


def test_no_more_is_under_way_than_the_plan_says(tiny: Config) -> None:
    under_way, most = 0, 0

    class Ticket:
        def result(self) -> Predictions:
            nonlocal under_way
            under_way -= 1
            return Predictions.from_logits(np.zeros((1, 2), dtype=np.float32))

    class Engine:
        plan = replace(DIRECT, streams=3)

        def submit(self, batch: Any) -> Ticket:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            return Ticket()

    batch = TokenBatch.from_rows(np.zeros((1, 9), dtype=np.int32))
    assert len(measure.predict(Engine(), [batch] * 10)) == 10  # type: ignore[arg-type]
    assert (most, under_way) == (4, 0)
