"""What `accel bench --suite text` found: a line a program, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

from accel_cli.bench.measure import short
from accel_cli.bench.terminal import console, table
from accel_cli.bench.text_ways import Way
from accel_cli.engines.base import Plan
from accel_cli.provenance import provenance

_CLOCK = (
    "all loaded and warm, but for the program fasttext, which starts and loads its model within the clock: a"
    " text file in the page cache -> rows in a new file there, not synced to the disk, or nowhere"
)


@dataclass(frozen=True)
class Row:
    """A way, the seconds of each repeat, and the share of its labels that equal accel's."""

    way: Way
    seconds: tuple[float, ...]
    agree: float | None = None

    @property
    def rate(self) -> float:
        """Sentences a second in the middle repeat."""
        return self.way.text.sentences / median(self.seconds)

    @property
    def bytes_rate(self) -> float:
        """Bytes of text a second in the middle repeat."""
        return self.way.text.bytes / median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """The row as it is published; `repeats` in seconds."""
        return {
            "program": self.way.program,
            "model": self.way.model,
            "fields": self.way.fields,
            "output": self.way.output,
            "sentences": self.way.text.sentences,
            "bytes": self.way.text.bytes,
            "seconds": short(median(self.seconds)),
            "seconds_fastest": short(min(self.seconds)),
            "seconds_slowest": short(max(self.seconds)),
            "sentences_per_s": short(self.rate),
            "gb_per_s": short(self.bytes_rate / 1e9),
            "max_error": self.way.max_error,
            "agree_percent": None if self.agree is None else short(100 * self.agree),
            "repeats": [short(value) for value in self.seconds],
        }


@dataclass(frozen=True)
class TextReport:
    """All rows, and what was run; `sentences` are the different ones, of which `checked` were checked."""

    config: str
    plan: Plan
    origin: str
    sentences: int
    checked: int
    rows: list[Row]
    gpu: Any = None  # cuda.device.DeviceFacts
    programs: tuple[str, ...] = ()  # the peers, each as name and version

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "text",
            "config": self.config,
            "device": self.plan.device,
            **provenance(self.gpu, self.programs),
            "plan": self.plan.keys(),
            "sentences": {"origin": self.origin, "count": self.sentences},
            "checked_sentences": self.checked,
            "clock": _CLOCK,
            "rows": [row.as_json() for row in self.rows],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def show(report: TextReport) -> None:
    """Print the table on stdout."""
    times = ["seconds", "fastest", "slowest", "sentences/s", "GB/s", "max error", "% agree"]
    lines = table(["program", "rows to"], ["sentences", "MB", *times])
    for row in report.rows:
        way = row.way
        lines.add_row(
            way.program,
            way.output,
            f"{way.text.sentences:,}",
            f"{way.text.bytes / 1e6:,.1f}",
            *(f"{value:.3f}" for value in (median(row.seconds), min(row.seconds), max(row.seconds))),
            f"{row.rate:,.0f}",
            f"{row.bytes_rate / 1e9:,.4f}",
            "-" if way.max_error is None else f"{way.max_error:.1e}",
            "-" if row.agree is None else f"{100 * row.agree:.2f}",
        )
    out = console()
    out.print(f"{report.config}: {report.sentences} different sentences, {report.origin}")
    out.print(f"{report.plan}")
    out.print(lines)
