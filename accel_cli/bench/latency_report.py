"""What `accel bench --suite latency` found: a line a way to ask, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.bench.measure import short
from accel_cli.bench.terminal import console, table
from accel_cli.engines.base import Plan
from accel_cli.provenance import provenance

_CLOCK = (
    "the host's, around each call with one sentence, after a round of all: ids or a line in memory -> its"
    " label in memory, by the Python API; a peer's ids are a tensor already, and its masks lie on the device"
)
_QUANTILES = {"median_us": 0.5, "p90_us": 0.9, "p99_us": 0.99}


@dataclass(frozen=True)
class Row:
    """A way to ask, the seconds of each sentence, and the largest error of those that were checked."""

    program: str
    plan: str
    input: str
    seconds: list[float]
    error: float

    def as_json(self) -> dict[str, Any]:
        """The row as it is published, in microseconds."""
        times = np.quantile(np.array(self.seconds) * 1e6, list(_QUANTILES.values()))
        return {
            "program": self.program,
            "plan": self.plan,
            "input": self.input,
            "n": len(self.seconds),
            **{name: short(value) for name, value in zip(_QUANTILES, times.tolist(), strict=True)},
            "fastest_us": short(min(self.seconds) * 1e6),
            "slowest_us": short(max(self.seconds) * 1e6),
            "max_error": self.error,
        }


@dataclass(frozen=True)
class LatencyReport:
    """All rows, and where they were measured. `gpu` are cuda.device.DeviceFacts, or None."""

    config: str
    plan: Plan
    gpu: Any
    programs: tuple[str, ...]
    origin: str
    rows: list[Row]

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "latency",
            "config": self.config,
            "device": self.plan.device,
            **provenance(self.gpu, self.programs),
            "origin": self.origin,
            "clock": _CLOCK,
            "rows": [row.as_json() for row in self.rows],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def show(report: LatencyReport) -> None:
    """Print the table on stdout."""
    out = console()
    out.print(f"{report.config}: one sentence at a time, {report.origin}")
    out.print(f"{report.plan}")
    names = ("median_us", "p90_us", "p99_us", "fastest_us", "slowest_us")
    lines = table(["program", "input"], ["n", *(f"{name[:-3]} us" for name in names), "max error"])
    for row in (each.as_json() for each in report.rows):
        figures = (f"{row[name]:.1f}" for name in names)
        lines.add_row(row["program"], row["input"], str(row["n"]), *figures, f"{row['max_error']:.1e}")
    out.print(lines)
