"""A plan as tables on a terminal and as the JSON that is published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from accel_cli.bench.measure import short
from accel_cli.bench.terminal import console, table
from accel_cli.provenance import provenance
from accel_cli.scale.estimate import HOUR, Estimate, Fleet, Node, Pace, Resource, nodes_for
from accel_cli.scale.figures import Figures
from accel_cli.scale.simulation import Outcome, Work

_COUNTS = ("deaths", "retried", "given_up")


@dataclass(frozen=True)
class Tail:
    """One simulation: shards of `shard_bytes`."""

    shard_bytes: int
    work: Work
    outcome: Outcome


@dataclass(frozen=True)
class ScaleReport:
    """A plan and what it rests on; `notes` say what is not known."""

    figures: Sequence[Figures]
    pace: Pace
    node: Node
    row_bytes: float
    deadline: float | None
    estimate: Estimate
    fleets: Sequence[Fleet]
    tails: Sequence[Tail]
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The plan as it is published. Rates are a second, sizes in bytes."""
        estimate = self.estimate
        return {
            "suite": "plan-scale",
            **provenance(),
            "figures": [asdict(one) for one in self.figures],
            "text_bytes": estimate.text_bytes,
            "sentences": short(estimate.text_bytes / self.pace.sentence_bytes),
            "sentence_bytes": short(self.pace.sentence_bytes),
            "row_bytes": self.row_bytes,
            "rows_bytes": short(estimate.text_bytes / self.pace.sentence_bytes * self.row_bytes),
            "unit": self.pace.unit,
            "node": asdict(self.node),
            "nodes": estimate.nodes,
            "deadline_hours": self.deadline,
            "first": estimate.first.name,
            "hours": short(estimate.hours),
            "rows": [self._resource(one) for one in estimate.resources],
            "fleets": [_fleet(one) for one in self.fleets],
            "tails": [self._tail(one) for one in self.tails],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"

    def _resource(self, one: Resource) -> dict[str, Any]:
        estimate = self.estimate

        def hours(rate: float | None) -> float | None:
            return None if rate is None else short(estimate.alone(rate))

        return {
            "resource": one.name,
            "basis": one.basis,
            "text_gb_per_s": short(one.text_rate * estimate.nodes / 1e9),
            "hours": hours(one.text_rate),
            "hours_slowest": hours(one.slowest),
            "hours_fastest": hours(one.fastest),
            "percent_used": short(100 * estimate.first.text_rate / one.text_rate),
            "nodes_for_deadline": None
            if self.deadline is None
            else nodes_for(estimate.text_bytes, one.text_rate, self.deadline),
        }

    def _tail(self, one: Tail) -> dict[str, Any]:
        work, outcome = one.work, one.outcome
        ideal = self.estimate.hours
        return {
            "shard_bytes": one.shard_bytes,
            "shard_gb": short(one.shard_bytes / 1e9),
            "shards": work.shards,
            "workers": work.workers,
            "shard_seconds": short(work.shard_seconds),
            "hours": short(outcome.seconds / HOUR),
            "percent_over": short(100 * (outcome.seconds / HOUR / ideal - 1)),
            "tail_minutes": short(outcome.tail_seconds / 60),
            **{name: getattr(outcome, name) for name in _COUNTS},
            "lost_unit_hours": short(outcome.lost_seconds / HOUR),
            "slow_workers": work.slow_workers,
            "slow_factor": work.slow_factor,
            "hours_between_deaths": None if work.sound else work.between_deaths / HOUR,
            "restart_seconds": work.restart_seconds,
            "attempts": work.attempts,
            "seed": work.seed,
        }


def _fleet(one: Fleet) -> dict[str, Any]:
    return {
        "fleet": one.name,
        "unit": one.pace.unit,
        "basis": one.pace.basis,
        "sentences_per_s": short(one.pace.rate),
        "unit_hours": short(one.unit_hours),
        "units": one.units,
        "price": one.price,
        "cost": None if one.cost is None else short(one.cost),
    }


def show(report: ScaleReport) -> None:
    """Print the tables on stdout."""
    out, found, unit = console(), report.as_json(), report.pace.unit
    out.print(
        f"{found['text_bytes'] / 1e12:,.6g} TB of text, {found['sentences']:,.0f} sentences of"
        f" {found['sentence_bytes']:g} bytes, {found['rows_bytes'] / 1e12:,.3g} TB of rows;"
        f" {found['nodes']:,} nodes of {report.node.units} {unit}{'s' * (report.node.units > 1)}"
    )
    for one in report.figures:
        out.print(f"figures: {one.file}, {one.machine}, {one.date[:10]}, commit {one.commit[:8]}")
    out.print("\nWhat each resource would take alone:")
    out.print(_resources(found["rows"]))
    out.print(f"full first: {found['first']}; {found['hours']:,.6g} hours if nothing else is in the way")
    out.print("\nThe same work, by what is paid for:")
    out.print(_fleets(found["fleets"]))
    out.print(f"\nSimulated, seed {report.tails[0].work.seed}:")
    out.print(_tails(found["tails"]))
    for note in report.notes:
        out.print(note)


def _resources(rows: list[dict[str, Any]]) -> Table:
    numbers = ["text GB/s", "hours", "slowest", "fastest", "% used", "nodes for the deadline"]
    lines = table(["resource", "basis"], numbers)
    for row in rows:
        lines.add_row(
            row["resource"],
            row["basis"],
            f"{row['text_gb_per_s']:,.3g}",
            *(_number(row[key]) for key in ("hours", "hours_slowest", "hours_fastest", "percent_used")),
            _number(row["nodes_for_deadline"]),
        )
    return lines


def _fleets(rows: list[dict[str, Any]]) -> Table:
    lines = table(["fleet", "unit", "basis"], ["sentences/s a unit", "unit-hours", "units", "price", "cost"])
    for row in rows:
        numbers = (row[key] for key in ("sentences_per_s", "unit_hours", "units", "price", "cost"))
        lines.add_row(row["fleet"], row["unit"], row["basis"], *map(_number, numbers))
    return lines


def _tails(rows: list[dict[str, Any]]) -> Table:
    keys = {"shard GB": "shard_gb", "shards": "shards", "s each": "shard_seconds", "hours": "hours"}
    keys |= {"% over": "percent_over", "tail min": "tail_minutes", "deaths": "deaths", "retried": "retried"}
    keys |= {"given up": "given_up", "lost unit-hours": "lost_unit_hours"}
    keys |= {"slow": "slow_workers", "h between deaths": "hours_between_deaths"}
    lines = table([], list(keys))
    for row in rows:
        lines.add_row(*(_number(row[key]) for key in keys.values()))
    return lines


def _number(value: float | None) -> str:
    """A number as a reader wants it: whole if it is large; - if there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 or isinstance(value, int) else f"{value:.3g}"
