"""What the ladder found: its figures as JSON, and as one table on a terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from accel_cli.bench.ceiling import Ceiling
from accel_cli.bench.measure import short
from accel_cli.bench.report import Row
from accel_cli.bench.terminal import console, table
from accel_cli.provenance import provenance

REGIMES = {
    "many": "all sentences asked for, or, where they take long, as many as take about half a second; warm;"
    " repeated as often as was asked for, or, where that takes long, for some seconds, at least three times",
    "one batch": "512 sentences, warm; other ones in each repeat; likewise",
    "cold": "the first 32 sentences of a fresh engine, once: kernels are compiled before,"
    " and loaded inside the clock",
}
CLOCKS = {
    "host/embeddings": "embeddings in host memory (page-locked, or pageable where the plan copies that way)"
    " -> logits, scores, labels in host memory; several batches under way, as the plan says",
    "host/ids": "token ids in host memory -> logits, scores, labels in host memory; likewise",
}


@dataclass(frozen=True)
class LadderRow:
    """A figure of a rung, or of a peer, whose `rung` is None."""

    rung: int | None
    name: str
    regime: str
    figure: Row

    @property
    def place(self) -> tuple[str, str]:
        """What it can be compared with on other rungs."""
        return self.figure.input, self.regime


@dataclass(frozen=True)
class LadderReport:
    """All that one climb found. `flop` is that of a sentence in the direct network, whatever a plan saves."""

    name: str
    flop: int
    origin: str
    count: int
    checked: int
    ceiling: Ceiling | None
    rows: list[LadderRow]
    failed: dict[str, str]  # why a rung was not timed
    gpu: Any = None  # cuda.device.DeviceFacts
    programs: tuple[str, ...] = ()
    complete: bool = True  # or more is to come

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "ladder",
            "ladder": self.name,
            "complete": self.complete,
            **provenance(self.gpu, self.programs),
            "sentences": {"origin": self.origin, "count": self.count},
            "checked_sentences": self.checked,
            "flop_per_sentence": self.flop,
            "ceiling": None if self.ceiling is None else self.ceiling.as_json(),
            "clocks": CLOCKS,
            "regimes": REGIMES,
            "rows": [self.row_json(row) for row in self.rows],
            "failed": self.failed,
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"

    def row_json(self, row: LadderRow) -> dict[str, Any]:
        """A row as it is published: where it stands, then as every other benchmark's."""
        seconds, figure = row.figure.timing.seconds, row.figure
        rate = self.flop * figure.rate
        first, before = self._rungs(row)
        ceiling = self.ceiling and self.ceiling.of(figure.plan.precision)
        return {
            "rung": row.rung,
            "name": row.name,
            "regime": row.regime,
            **figure.as_json(),
            "seconds": short(figure.timing.median),
            "seconds_min": short(min(seconds)),
            "seconds_max": short(max(seconds)),
            "x_first": None if first is None else short(figure.rate / first.figure.rate),
            "x_before": None if before is None else short(figure.rate / before.figure.rate),
            "tflop_per_s": short(rate / 1e12),
            "percent_of_ceiling": None if not ceiling else short(100 * rate / ceiling),
            "flop_per_byte": short(figure.work.flop / figure.work.bytes),
        }

    def _rungs(self, row: LadderRow) -> tuple[LadderRow | None, LadderRow | None]:
        """The rows of rung 0 and of the rung before among those that can be compared."""
        alike = {r.rung: r for r in self.rows if r.rung is not None and r.place == row.place}
        below = [number for number in alike if row.rung is not None and number < row.rung]
        return alike.get(0), alike[max(below)] if below else None


def show(report: LadderReport) -> None:
    """Print the table on stdout: a line a rung, all by the median of the repeats."""
    out = console()
    out.print(f"{report.name}: {report.origin}")
    out.print(
        f"TFLOP/s count {report.flop / 1e9:.3g} GFLOP a sentence, the direct network's work, whatever a plan"
        f" saves; ceiling: {report.ceiling or 'none measured'}"
    )
    out.print(_table(report))
    for rung, reason in report.failed.items():
        out.print(f"{rung} is not timed: {reason}", markup=False)


def _table(report: LadderReport) -> Table:
    head = ("n", "sentences/s", "slowest", "fastest", "x rung 0", "x before", "TFLOP/s", "% of ceiling")
    rest = ("n=512", "cold", "ids: n", "sentences/s", "n=512", "max error")
    lines = table(("rung", "name"), (*head, *rest))
    groups: dict[tuple[int | None, str], list[LadderRow]] = {}
    for row in report.rows:
        groups.setdefault((row.rung, row.name), []).append(row)
    for (rung, name), rows in groups.items():
        found = {row.place: report.row_json(row) for row in rows}
        many, ids = found.get(("embeddings", "many")), found["ids", "many"]
        shown = many or ids  # a rung without embeddings is compared by its ids
        lines.add_row(
            "" if rung is None else str(rung),
            name,
            "-" if many is None else f"{many['n']:,}",
            *(_rate(many, key) for key in ("sentences_per_s", "slowest", "fastest")),
            *(_number(shown[key], digits) for key, digits in (("x_first", 1), ("x_before", 2))),
            _number(shown["tflop_per_s"], 2),
            _number(shown["percent_of_ceiling"], 1),
            *(_rate(found.get(("embeddings", regime))) for regime in ("one batch", "cold")),
            f"{ids['n']:,}",
            _rate(ids),
            _rate(found.get(("ids", "one batch"))),
            f"{max(row.figure.max_error for row in rows):.1e}",
        )
    return lines


def _rate(row: dict[str, Any] | None, key: str = "sentences_per_s") -> str:
    """Three digits of a small rate, all of a large one."""
    if row is None:
        return "-"
    return f"{row[key]:,.0f}" if row[key] >= 100 else f"{row[key]:.3g}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
