"""A server whose engine is on a GPU."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import needs_gpu

from accel_cli.classifier import Classifier
from accel_cli.model.config import Config
from serve.processes import running
from serve.test_lifecycle import engines

pytestmark = [pytest.mark.gpu, needs_gpu]


@pytest.mark.parametrize("texts", [3, 8000], ids=["host_finds_words", "device_finds_words"])
def test_its_answers_are_those_of_the_cpu(tiny: Config, tiny_path: Path, texts: int) -> None:
    asked = [f"good film w{number % 30} {'bad ' * (number % 20)}" for number in range(texts)]
    with Classifier(tiny, "cpu") as classifier:
        expected = classifier.predict(asked)
    with running(tiny_path, "--device", "cuda") as server:
        rows = server.predict([[text] for text in asked]).json()
        assert server.stop() == 0
    labels = [{row["label"]: row["score"] for row in ranked} for ranked in rows]
    found = np.array([[row[name] for name in tiny.model.labels] for row in labels])
    np.testing.assert_allclose(found, expected.scores, atol=5e-3)


def test_an_engine_that_is_killed_ends_the_server(tiny_path: Path) -> None:
    with running(tiny_path, "--device", "cuda") as server:
        [engine] = engines(server.process.pid)
        os.kill(engine, signal.SIGKILL)
        assert server.code() == 1
        assert "ended by signal 9" in server.lines[-1]
