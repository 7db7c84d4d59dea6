"""What `accel bench --serve` found: a line a way to ask, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

from accel_cli.bench.measure import Timing, short
from accel_cli.bench.serve_client import Load
from accel_cli.bench.serve_engine import Known
from accel_cli.bench.serve_soak import Soak
from accel_cli.bench.terminal import console, table

_CLOCK = (
    "requests over loopback to a server in a process of its own, answered by the end of a repeat; latency"
    " from the sending of a request to its whole answer. engine: all sentences in memory -> labels in memory,"
    " in another process and in turns with the server, never at the same time"
)


@dataclass(frozen=True)
class ServeRow:
    """One way to ask: `n` sentences a request in a protocol, over so many connections; a load a repeat."""

    protocol: str
    n: int
    connections: int
    loads: tuple[Load, ...]

    @property
    def rates(self) -> list[float]:
        """Requests a second, repeat by repeat."""
        return [load.requests / load.seconds for load in self.loads]

    @property
    def sentence_rate(self) -> float:
        """Sentences a second in the middle repeat."""
        return self.n * median(self.rates)

    @property
    def p50(self) -> float:
        """The middle latency, in seconds; of the repeats the middle one."""
        return median(load.p50 for load in self.loads)

    @property
    def p99(self) -> float:
        """The latency that one request of a hundred exceeds; of the repeats the middle one."""
        return median(load.p99 for load in self.loads)

    def as_json(self, engine_rate: float) -> dict[str, Any]:
        """As it is published, beside the engine's own sentences a second, as `fastest` and `slowest` are."""
        rates = self.rates
        return {
            "program": "accel serve",
            "protocol": self.protocol,
            "n": self.n,
            "connections": self.connections,
            "requests_per_s": short(median(rates)),
            "sentences_per_s": short(self.sentence_rate),
            "fastest": short(self.n * max(rates)),
            "slowest": short(self.n * min(rates)),
            "p50_ms": short(1e3 * self.p50),
            "p99_ms": short(1e3 * self.p99),
            "p99_ms_worst": short(1e3 * max(load.p99 for load in self.loads)),
            "x_engine": short(self.sentence_rate / engine_rate),
            "repeats": [
                {
                    "requests": load.requests,
                    "seconds": short(load.seconds),
                    "p50_ms": short(1e3 * load.p50),
                    "p99_ms": short(1e3 * load.p99),
                }
                for load in self.loads
            ],
        }


@dataclass(frozen=True)
class ServeReport:
    """All that one run found. `load` names the program that asked."""

    suite: str
    known: Known
    origin: str
    sentences: int
    load: str
    limits: dict[str, int]
    engine: Timing
    rows: list[ServeRow]
    soak: Soak | None

    @property
    def engine_rate(self) -> float:
        """The engine's own sentences a second."""
        return self.sentences / self.engine.median

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        seconds = self.engine.seconds
        return {
            "suite": f"serve {self.suite}",
            "device": self.known.plan.device,
            "plan": str(self.known.plan),
            **self.known.provenance,
            "sentences": {"origin": self.origin, "count": self.sentences},
            "checked_sentences": self.known.checked,
            "max_error": self.known.max_error,
            "clock": _CLOCK,
            "load": self.load,
            "limits": self.limits,
            "engine": {
                "sentences_per_s": short(self.engine_rate),
                "fastest": short(self.sentences / min(seconds)),
                "slowest": short(self.sentences / max(seconds)),
                "repeats": [short(value) for value in seconds],
            },
            "rows": [row.as_json(self.engine_rate) for row in self.rows],
            "soak": [self.soak.as_json()] if self.soak else [],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def show(report: ServeReport) -> None:
    """Print the tables on stdout."""
    out = console()
    out.print(f"{report.suite}: {report.sentences} sentences, {report.origin}; load from {report.load}")
    out.print(f"{report.known.plan}; the engine by itself: {report.engine_rate:,.0f} sentences/s")
    numbers = ["n", "connections", "requests/s", "sentences/s", "slowest", "fastest", "p50 ms", "p99 ms"]
    lines = table(["protocol"], [*numbers, "x engine"])
    for row in report.rows:
        rates = row.rates
        lines.add_row(
            row.protocol,
            f"{row.n:,}",
            str(row.connections),
            f"{median(rates):,.0f}",
            *(f"{row.n * rate:,.0f}" for rate in (median(rates), min(rates), max(rates))),
            f"{1e3 * row.p50:.2f}",
            f"{1e3 * row.p99:.2f}",
            f"{row.sentence_rate / report.engine_rate:.2f}",
        )
    out.print(lines)
    if report.soak:
        _show_soak(report.soak)


def _show_soak(soak: Soak) -> None:
    out, found, counts = console(), soak.as_json(), soak.counts
    out.print(f"\n{soak.seconds:g} s at {found['offered_requests_per_s']:,.0f} requests/s: {found['mix']}")
    kinds = ("right", "refused", "wrong", "failed", "unsent")
    lines = table([], [*kinds, "sentences/s", "p50 ms", "p99 ms", "good again after", *_MEMORY])
    lines.add_row(
        *(f"{getattr(counts, kind):,}" for kind in kinds),
        f"{found['right_sentences_per_s']:,.0f}",
        *("-" if found[key] is None else f"{found[key]:,.1f}" for key in ("p50_ms", "p99_ms")),
        "never" if found["recovery_ms"] is None else f"{found['recovery_ms']:,.0f} ms",
        *("-" if found[key] is None else f"{found[key]:,.0f}" for key in _MEMORY.values()),
    )
    out.print(lines)


_MEMORY = {"MiB at start": "start_mib", "end": "end_mib", "most": "most_mib"}
