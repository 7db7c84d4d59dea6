"""What `accel bench --suite scaling` found: a line for each number of devices, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

from accel_cli.bench.measure import short
from accel_cli.bench.terminal import console, table
from accel_cli.bench.text_files import TextFile
from accel_cli.provenance import provenance

_CLOCK = (
    "seconds: from the first shard that is handed out, workers (and Ray's cluster) not yet started, to the"
    " last part synced and all workers ended. start_seconds: until the last worker has loaded the model."
    " steady: from the end of the last worker's first shard until there is none left for a worker. A text in"
    " the page cache -> part files"
)


@dataclass(frozen=True)
class Repeat:
    """One run: seconds of the whole and of its start, steady sentences a second and percent inside."""

    seconds: float
    start: float
    steady: float
    inside: float


@dataclass(frozen=True)
class Row:
    """Workers on `count` devices, their repeats, and in turns with them those of the row of one device."""

    engine: str
    devices: tuple[str, ...]  # of each worker
    count: int
    repeats: tuple[Repeat, ...]
    compared: tuple[Repeat, ...]

    @property
    def x_steady(self) -> float:
        """Times the steady rate of one device; the middle of all repeats."""
        return median(a.steady / b.steady for a, b in zip(self.repeats, self.compared, strict=True))

    @property
    def x_whole(self) -> float:
        """The same of whole runs."""
        return median(b.seconds / a.seconds for a, b in zip(self.repeats, self.compared, strict=True))

    def as_json(self, text: TextFile) -> dict[str, Any]:
        """The row as it is published; rates are those of the middle repeat."""
        seconds = median(repeat.seconds for repeat in self.repeats)
        steady = median(repeat.steady for repeat in self.repeats)
        return {
            "engine": self.engine,
            "devices": ", ".join(self.devices),
            "count": self.count,
            "workers": len(self.devices),
            "seconds": short(seconds),
            "start_seconds": short(median(repeat.start for repeat in self.repeats)),
            "sentences_per_s": short(text.sentences / seconds),
            "gb_per_s": short(text.bytes / seconds / 1e9),
            "x_one": short(self.x_whole),
            "steady_sentences_per_s": short(steady),
            "steady_gb_per_s": short(steady * text.bytes / text.sentences / 1e9),
            "steady_slowest": short(min(repeat.steady for repeat in self.repeats)),
            "steady_fastest": short(max(repeat.steady for repeat in self.repeats)),
            "steady_x_one": short(self.x_steady),
            "scaling_per_device": short(self.x_steady / self.count),
            "percent_inside": short(median(repeat.inside for repeat in self.repeats)),
            "repeats": [short(repeat.seconds) for repeat in self.repeats],
            "steady_repeats": [short(repeat.steady) for repeat in self.repeats],
        }


@dataclass(frozen=True)
class ScalingReport:
    """All rows, and what was run: a plan, and a text in shards of `shard_size` bytes."""

    config: str
    plan: str
    origin: str
    file: TextFile
    shard_size: int
    file_system: str  # of text and parts
    checked: int
    rows: list[Row]
    gpu: Any = None  # cuda.device.DeviceFacts of the first device
    programs: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "scaling",
            "config": self.config,
            **provenance(self.gpu, self.programs),
            "plan": self.plan,
            "text": {"origin": self.origin, "sentences": self.file.sentences, "bytes": self.file.bytes},
            "shard_size": self.shard_size,
            "file_system": self.file_system,
            "checked_sentences": self.checked,
            "clock": _CLOCK,
            "rows": [row.as_json(self.file) for row in self.rows],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def show(report: ScalingReport) -> None:
    """Print the table on stdout."""
    steady = ["steady sent./s", "steady GB/s", "x one", "a device", "% inside"]
    lines = table(["engine", "devices"], ["seconds", "of them start", "sentences/s", *steady])
    for row in report.rows:
        found = row.as_json(report.file)
        lines.add_row(
            row.engine,
            found["devices"],
            f"{found['seconds']:.2f}",
            f"{found['start_seconds']:.2f}",
            f"{found['sentences_per_s']:,.0f}",
            f"{found['steady_sentences_per_s']:,.0f}",
            f"{found['steady_gb_per_s']:.3f}",
            f"{found['steady_x_one']:.2f}",
            f"{found['scaling_per_device']:.3f}",
            f"{found['percent_inside']:.1f}",
        )
    out = console()
    out.print(
        f"{report.config}: {report.file.sentences} sentences, {report.file.bytes} bytes, {report.origin}"
    )
    out.print(f"{report.plan}")
    out.print(lines)
