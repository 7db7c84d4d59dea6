"""What `accel bench --suite gemm` found: one line a program and product, on a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from accel_cli.bench.ceiling import Ceiling
from accel_cli.bench.measure import Timing, short
from accel_cli.bench.operands import traffic
from accel_cli.bench.terminal import console, table
from accel_cli.engines.tuned import Product, numbers
from accel_cli.kernels.sgemm_tile import Tile
from accel_cli.provenance import provenance

_CLOCK = (
    "one product on the device, by events around a millisecond of them or one; each takes operands of its own"
    " in turn, `copies` in number, so that no cache holds what fits none"
)


@dataclass(frozen=True)
class GemmRow:
    """One program at one product; `timing` is of one product, `max_error` against float64 on some rows."""

    product: Product
    program: str
    tile: Tile | None
    copies: int
    timing: Timing
    max_error: float
    x_cublas: float | None = None

    @property
    def flop_rate(self) -> float:
        """Operations a second in the middle repeat."""
        return self.product.flop / self.timing.median

    @property
    def byte_rate(self) -> float:
        """Bytes a second in the middle repeat, every matrix counted once."""
        return traffic(self.product) / self.timing.median

    def as_json(self, ceiling: Ceiling) -> dict[str, Any]:
        """The row as it is published; `repeats` in seconds."""
        seconds = self.timing.seconds
        return {
            "product": str(self.product),
            **vars(self.product),
            "program": self.program,
            "tile": None if self.tile is None else numbers(self.tile),
            "copies": self.copies,
            "us": short(1e6 * self.timing.median),
            "us_min": short(1e6 * min(seconds)),
            "us_max": short(1e6 * max(seconds)),
            "tflop_per_s": short(self.flop_rate / 1e12),
            "gb_per_s": short(self.byte_rate / 1e9),
            "percent_of_ceiling": short(100 * self.flop_rate / ceiling.flop),
            "x_cublas": None if self.x_cublas is None else short(self.x_cublas),
            "max_error": self.max_error,
            "repeats": [short(value) for value in seconds],
        }


@dataclass(frozen=True)
class GemmReport:
    """All rows, and where they were measured."""

    device: str
    ceiling: Ceiling
    rows: list[GemmRow]
    gpu: Any  # cuda.device.DeviceFacts

    def as_json(self) -> dict[str, Any]:
        """The report as it is published."""
        return {
            "suite": "gemm",
            "device": self.device,
            **provenance(self.gpu),
            "ceiling": self.ceiling.as_json(),
            "clock": _CLOCK,
            "rows": [row.as_json(self.ceiling) for row in self.rows],
        }

    def text(self) -> str:
        """The JSON as it stands in a file."""
        return json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"


def show(report: GemmReport) -> None:
    """Print the table on stdout."""
    numbered = ("us", "fastest", "slowest", "TFLOP/s", "GB/s", "% of ceiling", "x cuBLAS", "max error")
    lines = table(("product", "program"), numbered)
    lines.add_column("tile", no_wrap=True)
    for row in report.rows:
        seconds, tile = row.timing.seconds, row.tile
        lines.add_row(
            str(row.product),
            row.program,
            *(f"{1e6 * value:,.1f}" for value in (row.timing.median, min(seconds), max(seconds))),
            f"{row.flop_rate / 1e12:.2f}",
            f"{row.byte_rate / 1e9:,.0f}",
            f"{100 * row.flop_rate / report.ceiling.flop:.1f}",
            "-" if row.x_cublas is None else f"{row.x_cublas:.3f}",
            f"{row.max_error:.1e}",
            "" if tile is None else " ".join(map(str, numbers(tile))),
        )
    out = console()
    out.print(f"gemm on {report.gpu.name}; ceiling: {report.ceiling}")
    out.print(lines)
