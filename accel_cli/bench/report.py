"""What a benchmark found, as the JSON that is published: figures, and what one must know to trust them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from accel_cli.bench.bounds import Bounds
from accel_cli.bench.measure import Timing, short
from accel_cli.bench.profile import Profile
from accel_cli.bench.work import Work
from accel_cli.engines.base import Plan
from accel_cli.provenance import provenance
from accel_cli.stages import StartStage, seconds

# What is inside each clock, by clock and input.
CLOCKS = {
    "device/ids": "embedding to logits of each batch, by events on the device; the host's part is outside",
    "host/ids": "token ids in memory -> logits, scores, labels in memory, any copies to a device included",
    "host/text": "lines in memory -> tokens -> logits, scores, labels in memory",
    "file/text": "a file in the page cache -> tokens -> labels and scores -> rows, written to nowhere",
}


@dataclass(frozen=True)
class Row:
    """One figure: which program did what by which clock, and how wrong its logits are."""

    program: str
    plan: Plan
    clock: str
    input: str
    n: int
    warm: bool
    timing: Timing
    max_error: float
    work: Work
    x_peer: float | None = None

    @property
    def rate(self) -> float:
        """Sentences a second in the middle repeat."""
        return self.n / self.timing.median

    def as_json(self) -> dict[str, Any]:
        """The row as it is published. Rates are a second, `repeats` and `cpu_repeats` in seconds."""
        seconds = self.timing.seconds
        return {
            "program": self.program,
            "plan": str(self.plan),
            "input": self.input,
            "n": self.n,
            "clock": self.clock,
            "warm": self.warm,
            "sentences_per_s": short(self.rate),
            "fastest": short(self.n / min(seconds)),
            "slowest": short(self.n / max(seconds)),
            "us_per_sentence": short(1e6 / self.rate),
            "x_peer": None if self.x_peer is None else short(self.x_peer),
            "max_error": self.max_error,
            **_rates(self.work, self.timing.median),
            "repeats": [short(value) for value in seconds],
            "cpu_repeats": [short(value) for value in self.timing.cpu],
            **self.plan.keys(),
        }


@dataclass(frozen=True)
class Stage:
    """What one stage takes over all batches, and the work in it."""

    name: str
    timing: Timing
    share: float
    work: Work

    def as_json(self) -> dict[str, Any]:
        """The stage as it is published."""
        seconds = self.timing.median
        return {
            "stage": self.name,
            "seconds": short(seconds),
            "percent": short(100 * self.share),
            "flop": self.work.flop,
            "bytes": self.work.bytes,
            **_rates(self.work, seconds),
            "repeats": [short(value) for value in self.timing.seconds],
        }


@dataclass(frozen=True)
class Report:
    """All that one run of `accel bench` found."""

    suite: str
    plan: Plan
    origin: str
    sentences: int
    tokens: int
    bytes: int  # of the sentences as lines, their ends included
    checked: int
    load: list[StartStage]
    rows: list[Row]
    stages: list[Stage]
    gpu: Any = None  # cuda.device.DeviceFacts
    programs: tuple[str, ...] = ()  # the peers, each as name and version
    profile: Profile | None = None
    bounds: Bounds | None = None

    @property
    def load_seconds(self) -> float:
        """Of all that it took to load the model, the weights included."""
        return seconds(self.load)

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": self.suite,
            "device": self.plan.device,
            **provenance(self.gpu, self.programs),
            "sentences": {
                "origin": self.origin,
                "count": self.sentences,
                "tokens": self.tokens,
                "bytes": self.bytes,
            },
            "checked_sentences": self.checked,
            "load_seconds": short(self.load_seconds),
            "load_seconds_without_weights": short(seconds(self.load, "weights")),
            "load": [stage.as_json(self.load_seconds) for stage in self.load],
            "clocks": CLOCKS,
            "rows": [row.as_json() for row in self.rows],
            "stages": [stage.as_json() for stage in self.stages],
            "profile": self.profile.as_json() if self.profile else None,
            "bounds": self.bounds.as_json() if self.bounds else None,
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def _rates(work: Work, seconds: float) -> dict[str, float]:
    """Work by time; 0 where the clock was too coarse to see any."""
    each = 1e-9 / seconds if seconds else 0.0
    return {"gflop_per_s": short(work.flop * each), "gb_per_s": short(work.bytes * each)}
