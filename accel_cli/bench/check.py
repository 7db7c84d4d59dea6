"""Checking before timing: a fast wrong answer is no figure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accel_cli.batches import Doubles, Floats, TokenBatch
from accel_cli.bench.work import layers, total
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.model.weights import Weights
from accel_cli.numeric import compare
from accel_cli.validation import TOLERANCE

_MOST, _LEAST = 32, 4  # sentences that are checked
_FLOP = 16e9  # what the float64 reference may cost; it manages about 0.6 GFLOP/s


@dataclass(frozen=True)
class Truth:
    """The float64 logits [sentences, labels] of the first sentences of the input."""

    logits: Doubles

    def __len__(self) -> int:
        return len(self.logits)

    def error(self, what: str, logits: Floats, precision: str) -> float:
        """The largest error of the first sentences' logits; AccelError if it is too large for `precision`."""
        count = min(len(self), len(logits))
        worst = compare(logits[:count], self.logits[:count], TOLERANCE[precision])
        if not worst.passed:
            raise AccelError(
                f"not timed, because {what} computes something else than the float64 reference: {worst}."
                " Run `accel validate` to see the first layer that differs"
            )
        return worst.error


def truth(spec: ModelSpec, weights: Weights, plan: Plan, batch: TokenBatch) -> Truth:
    """The reference for the first 32 sentences of `batch`, or fewer where the network is large."""
    straight = replace(plan, precision="fp32", convolution="direct", experts="separate")
    each = total(list(layers(spec, straight, batch).values())).flop / len(batch)
    count = min(len(batch), max(_LEAST, min(_MOST, int(_FLOP / each))))
    return Truth(forward(spec, weights, batch.rows(0, count))["logits"])
