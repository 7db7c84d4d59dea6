"""What a batch leaves on a CUDA device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.cuda.ranges import named
from accel_cli.kernels.argmax import argmax
from accel_cli.kernels.base import Runner
from accel_cli.kernels.softmax import softmax


@dataclass(frozen=True)
class Outputs:
    """`logits` and `scores` float32 [sentences, labels], `labels` int32 [sentences]."""

    logits: Any
    scores: Any
    labels: Any

    def score(self, run: Runner) -> None:
        """Scores and labels of the logits that are there: a kernel each."""
        with named("scores and labels"):
            softmax(run, self.logits, self.scores)
            argmax(run, self.logits, self.labels)
