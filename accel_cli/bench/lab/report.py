"""What an experiment found: the same rows as a table on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from accel_cli.bench.measure import Timing, short
from accel_cli.bench.terminal import console, table
from accel_cli.provenance import provenance

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column of the table: the key of a row, a heading, and how a number is written; words have no form."""

    key: str
    heading: str
    form: str = ""
    missing: str = "-"  # what stands for None

    def shown(self, row: Row) -> str:
        """The row's value as it is printed."""
        value = row[self.key]
        return self.missing if value is None else format(value, self.form)


@dataclass(frozen=True)
class LabReport:
    """All rows of one experiment, and where they were measured. `facts` are what they are held against."""

    suite: str
    device: str
    gpu: Any  # cuda.device.DeviceFacts
    clock: str
    facts: dict[str, Any]
    rows: list[Row]
    columns: tuple[Column, ...]

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": self.suite,
            "device": self.device,
            **provenance(self.gpu),
            **self.facts,
            "clock": self.clock,
            "rows": self.rows,
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def times(timing: Timing) -> Row:
    """Of a row: microseconds of the middle, fastest and slowest repeat, and all in seconds."""
    seconds = timing.seconds
    return {
        "us": short(1e6 * timing.median),
        "us_min": short(1e6 * min(seconds)),
        "us_max": short(1e6 * max(seconds)),
        "repeats": [short(value) for value in seconds],
    }


def show(report: LabReport) -> None:
    """Print the table on stdout."""
    words = [column for column in report.columns if not column.form]
    numbers = [column for column in report.columns if column.form]
    lines = table([column.heading for column in words], [column.heading for column in numbers])
    for row in report.rows:
        lines.add_row(*(column.shown(row) for column in (*words, *numbers)))
    out = console()
    facts = ", ".join(f"{name} {value}" for name, value in report.facts.items())
    out.print(f"{report.suite} on {report.gpu.name}; {facts}")
    out.print(lines)
