"""What the rungs are fed with, golden sentences among it, and how long they are timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ladders
import networks
import numpy as np
import pytest

from accel_cli.batches import Batch, EmbeddingBatch
from accel_cli.bench import ladder_clock
from accel_cli.bench.ladder_inputs import EVERY, Inputs, make_inputs
from accel_cli.bench.report import Row
from accel_cli.errors import AccelError
from accel_cli.model.config import load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import load_golden
from accel_cli.model.reference import forward


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ladders.make_ladder(tmp_path_factory.mktemp("climbed"))


@pytest.fixture(scope="module")
def inputs(folder: Path) -> Inputs:
    spec = load_config(folder.parent / "school.yaml").model
    weights = obtain_weights(spec)
    golden = load_golden(folder.parent / "golden.safetensors", spec, weights)
    return make_inputs(spec, weights, golden, 100, locked=False)


class TestInputs:
    def test_every_16th_is_golden_and_both_kinds_are_the_same(self, folder: Path, inputs: Inputs) -> None:
        spec = load_config(folder.parent / "school.yaml").model
        weights = obtain_weights(spec)
        logits = forward(spec, weights, inputs.tokens)["logits"]
        embedded = forward(spec, weights, EmbeddingBatch(inputs.values))["logits"]
        np.testing.assert_array_equal(logits, embedded)
        assert inputs.error(0, logits.astype(np.float32), 1e-4) < 1e-6
        assert len({ids.tobytes() for ids in inputs.tokens.ids.reshape(100, -1)}) > 80
        assert list(inputs.starts(40)) == [0, 48]
        assert inputs.error(48, logits[48:88].astype(np.float32), 1e-4) < 1e-6

    def test_each_golden_sentence_is_compared(self, folder: Path, inputs: Inputs) -> None:
        spec = load_config(folder.parent / "school.yaml").model
        logits = forward(spec, obtain_weights(spec), inputs.tokens)["logits"].astype(np.float32)
        logits[3 * EVERY, 1] += 1
        with pytest.raises(AccelError, match="other logits than the golden ones in the run that is timed"):
            inputs.error(0, logits, 1e-4)
        assert inputs.error(0, logits[: 3 * EVERY], 1e-4) < 1e-6

    def test_batches_cover_a_window_in_place_or_copied(self, inputs: Inputs) -> None:
        for copied in (False, True):
            parts = inputs.batches("embeddings", 32, 20, 8, copied=copied)
            assert [len(part) for part in parts] == [8, 8, 4]
            values = np.concatenate([part.values for part in parts if isinstance(part, EmbeddingBatch)])
            np.testing.assert_array_equal(values, inputs.values[32:52])
            assert np.shares_memory(parts[0].values, inputs.values) != copied  # type: ignore[union-attr]


class TestClock:
    @pytest.fixture
    def warm(self, inputs: Inputs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A first row of a plan with batches of so many, each run taking `seconds(size, times before)`."""
        spec = load_config(folder.parent / "school.yaml").model
        logits = forward(spec, obtain_weights(spec), inputs.tokens)["logits"].astype(np.float32)

        def row(batch: int, repeats: int, seconds: Callable[[int, int], float]) -> Row:
            seen: list[int] = []

            def timed(run: Any) -> tuple[float, float]:
                run()
                return seconds(seen[-1], seen.count(seen[-1]) - 1), 0.0

            def answer(batches: list[Batch]) -> np.ndarray:
                seen.append(sum(map(len, batches)))
                return logits[: seen[-1]]

            monkeypatch.setattr(ladder_clock, "timed", timed)
            monkeypatch.setattr(Inputs, "starts", lambda self, count: range(0, 1))
            plan = networks.plan("cpu", batch=batch)
            subject = ladder_clock.Subject(0, "cpu", "accel", plan, answer, 1)
            return ladder_clock.Clock(spec, inputs, subject, repeats).warm("ids")[0].figure

        return row

    def test_a_slow_first_call_of_a_size_does_not_make_the_rung_look_slow(
        self, warm: Any, inputs: Inputs
    ) -> None:
        assert warm(200, 2, lambda size, before: 1e-3 if before else 10.0).n == len(inputs)

    def test_a_slow_rung_takes_few_sentences_but_a_whole_batch(self, warm: Any) -> None:
        assert warm(1, 2, lambda size, before: 0.1 * size).n == 4
        assert warm(48, 2, lambda size, before: 0.1 * size).n == 48

    def test_long_runs_are_repeated_less_often(self, warm: Any) -> None:
        found = warm(48, 10, lambda size, before: 0.0051 * size)  # 0.51 s a repeat, of 2.5
        assert (found.n, len(found.timing.seconds)) == (100, 5)
        assert len(warm(48, 10, lambda size, before: 0.5 * size).timing.seconds) == 3
        assert len(warm(48, 10, lambda size, before: 0.001 * size).timing.seconds) == 10
