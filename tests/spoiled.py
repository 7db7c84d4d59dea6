"""Engines that compute something wrong once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accel_cli.batches import Predictions
from accel_cli.bench import measure


def spoil_prediction(monkeypatch: pytest.MonkeyPatch, call: int) -> list[int]:
    """Make `measure.finished` give wrong logits at its call number `call`, from 1; returns the calls made."""
    calls: list[int] = []
    right = measure.finished

    def sometimes_wrong(*arguments: Any) -> Predictions:
        calls.append(len(calls) + 1)
        found = right(*arguments)
        return replace(found, logits=found.logits + np.float32(len(calls) == call))

    monkeypatch.setattr(measure, "finished", sometimes_wrong)
    return calls
