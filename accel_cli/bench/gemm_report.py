"""What `accel bench --suite gemm` found: one line a program and product, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from accel_cli.bench.ceiling import CUBLAS, Ceiling
from accel_cli.bench.measure import Timing, short
from accel_cli.bench.operands import traffic
from accel_cli.bench.terminal import console, table
from accel_cli.engines.tuned import Product
from accel_cli.provenance import provenance

_CLOCK = (
    "one product on the device, by events around a millisecond of them or one; each takes operands of its own"
    " in turn, `copies` in number, so that no cache holds what fits none"
)


@dataclass(frozen=True)
class GemmRow:
    """One program at one product; `timing` is of one product, `max_error` against float64 on some rows.

    `tile` is its numbers, if it has one; a value of a matrix takes `width` bytes.
    """

    product: Product
    program: str
    tile: list[int] | None
    copies: int
    timing: Timing
    max_error: float
    width: int = 4
    x_cublas: float | None = None

    @property
    def flop_rate(self) -> float:
        """Operations a second in the middle repeat."""
        return self.product.flop / self.timing.median

    @property
    def byte_rate(self) -> float:
        """Bytes a second in the middle repeat, every matrix counted once."""
        return traffic(self.product, self.width) / self.timing.median

    def percent(self, best: float | None) -> float | None:
        """Of the `best` rate of operations; None where that is not known."""
        return None if best is None else 100 * self.flop_rate / best

    def as_json(self, best: float | None) -> dict[str, Any]:
        """The row as it is published, beside the `best` rate; `repeats` in seconds."""
        seconds = self.timing.seconds
        return {
            "product": str(self.product),
            **vars(self.product),
            "program": self.program,
            "tile": self.tile,
            "copies": self.copies,
            "us": short(1e6 * self.timing.median),
            "us_min": short(1e6 * min(seconds)),
            "us_max": short(1e6 * max(seconds)),
            "tflop_per_s": short(self.flop_rate / 1e12),
            "gb_per_s": short(self.byte_rate / 1e9),
            "percent_of_ceiling": _known(self.percent(best)),
            "x_cublas": _known(self.x_cublas),
            "max_error": self.max_error,
            "repeats": [short(value) for value in seconds],
        }


@dataclass(frozen=True)
class GemmReport:
    """All rows, and where and in which precision they were measured."""

    device: str
    ceiling: Ceiling
    rows: list[GemmRow]
    gpu: Any  # cuda.device.DeviceFacts
    precision: str = "fp32"

    @property
    def best(self) -> float | None:
        """The ceiling of that precision, in operations a second."""
        return self.ceiling.of(self.precision)

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "gemm",
            "device": self.device,
            "precision": self.precision,
            **provenance(self.gpu),
            "ceiling": self.ceiling.as_json(),
            "clock": _CLOCK,
            "rows": [row.as_json(self.best) for row in self.rows],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def beside_cublas(rows: list[GemmRow]) -> list[GemmRow]:
    """The rows of one product, with how many times as fast as cuBLAS each is, if that is among them."""
    peer = next((row.timing.median for row in rows if row.program == CUBLAS), None)
    return [replace(row, x_cublas=None if peer is None else peer / row.timing.median) for row in rows]


def show(report: GemmReport) -> None:
    """Print the table on stdout."""
    numbered = ("us", "fastest", "slowest", "TFLOP/s", "GB/s", "% of ceiling", "x cuBLAS", "max error")
    lines = table(("product", "program"), numbered)
    lines.add_column("tile", no_wrap=True)
    for row in report.rows:
        seconds, percent = row.timing.seconds, row.percent(report.best)
        lines.add_row(
            str(row.product),
            row.program,
            *(f"{1e6 * value:,.1f}" for value in (row.timing.median, min(seconds), max(seconds))),
            f"{row.flop_rate / 1e12:.2f}",
            f"{row.byte_rate / 1e9:,.0f}",
            "-" if percent is None else f"{percent:.1f}",
            "-" if row.x_cublas is None else f"{row.x_cublas:.3f}",
            f"{row.max_error:.1e}",
            " ".join(map(str, row.tile or ())),
        )
    out = console()
    out.print(f"gemm in {report.precision} on {report.gpu.name}; ceiling: {report.ceiling}")
    out.print(lines)


def _known(value: float | None) -> float | None:
    return None if value is None else short(value)
