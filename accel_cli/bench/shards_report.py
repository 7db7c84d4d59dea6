"""What `accel bench --suite shards` found: a line a way to run, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

from accel_cli.bench.measure import short
from accel_cli.bench.terminal import console, table
from accel_cli.provenance import provenance

_CLOCK = (
    "the whole command, from its start to its end: interpreters and the model loaded by every process, a text"
    " in the page cache -> rows in files, synced to the disk"
)


@dataclass(frozen=True)
class Row:
    """One way: the seconds of each repeat, and those of the way it is compared with."""

    way: str
    seconds: tuple[float, ...]
    compared: tuple[float, ...]

    @property
    def cost(self) -> float:
        """Percent of time more than the way it is compared with takes; the middle of all repeats."""
        return 100 * median(mine / its - 1 for mine, its in zip(self.seconds, self.compared, strict=True))

    def as_json(self, sentences: int, size: int) -> dict[str, Any]:
        """The row as it is published; `repeats` in seconds."""
        middle = median(self.seconds)
        return {
            "way": self.way,
            "seconds": short(middle),
            "sentences_per_s": short(sentences / middle),
            "mb_per_s": short(size / middle / 1e6),
            "cost_percent": short(self.cost),
            "repeats": [short(value) for value in self.seconds],
        }


@dataclass(frozen=True)
class ShardsReport:
    """All rows, and what was run: the options, and a text of so many sentences and bytes."""

    config: str
    arguments: tuple[str, ...]
    origin: str
    sentences: int
    bytes: int
    rows: list[Row]

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "shards",
            "config": self.config,
            "arguments": list(self.arguments),
            **provenance(),
            "sentences": {"origin": self.origin, "count": self.sentences, "bytes": self.bytes},
            "clock": _CLOCK,
            "rows": [row.as_json(self.sentences, self.bytes) for row in self.rows],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def show(report: ShardsReport) -> None:
    """Print the table on stdout."""
    lines = table(["way"], ["seconds", "fastest", "slowest", "sentences/s", "MB/s", "% more time"])
    for row in report.rows:
        middle = median(row.seconds)
        lines.add_row(
            row.way,
            *(f"{value:.2f}" for value in (middle, min(row.seconds), max(row.seconds))),
            f"{report.sentences / middle:,.0f}",
            f"{report.bytes / middle / 1e6:,.2f}",
            f"{row.cost:+.1f}",
        )
    out = console()
    out.print(f"{report.config}: {report.sentences} sentences, {report.bytes} bytes, {report.origin}")
    out.print(lines)
