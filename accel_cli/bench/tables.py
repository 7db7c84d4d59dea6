"""The figures on a terminal: tables of rates, of the time in each stage and, if asked, in each kernel."""

from __future__ import annotations

from rich.table import Table

from accel_cli.bench.bounds_table import shown
from accel_cli.bench.profile import KernelTime
from accel_cli.bench.report import Report, Row, Stage
from accel_cli.bench.terminal import console, table


def show(report: Report) -> None:
    """Print the tables on stdout."""
    out = console()
    out.print(f"{report.suite}: {report.sentences} sentences, {report.tokens} tokens, {report.origin}")
    out.print(f"{report.plan}; loaded in {report.load_seconds:.3f} s")
    out.print("\nThroughput, by the median of the repeats:")
    out.print(_rates(report.rows))
    where = "one thread" if report.plan.device == "cpu" else report.plan.device
    out.print(f"\nTime in each stage, all sentences, on {where}:")
    out.print(_shares(report.stages))
    if profile := report.profile:
        size = f"{profile.sentences} sentences in {profile.batches} batches"
        out.print(f"\nTime in each kernel, {size}, in turn on one stream:")
        out.print(_kernels(profile.kernels))
    for piece in shown(report.bounds) if report.bounds else ():
        out.print(piece)


def _rates(rows: list[Row]) -> Table:
    words = ["program", "clock", "input", ""]
    numbers = ["n", "batch", "sentences/s", "slowest", "fastest", "us each", "GFLOP/s", "GB/s", "x peer"]
    lines = table(words, [*numbers, "max error"])
    for row in rows:
        middle = row.timing.median
        lines.add_row(
            row.program,
            row.clock,
            row.input,
            "warm" if row.warm else "cold",
            str(row.n),
            str(row.plan.batch),
            f"{row.rate:,.0f}",
            f"{row.n / max(row.timing.seconds):,.0f}",
            f"{row.n / min(row.timing.seconds):,.0f}",
            f"{1e6 / row.rate:.3g}",
            f"{row.work.flop / middle / 1e9:,.1f}",
            f"{row.work.bytes / middle / 1e9:,.1f}",
            "-" if row.x_peer is None else f"{row.x_peer:.2f}",
            f"{row.max_error:.1e}",
        )
    return lines


def _kernels(kernels: list[KernelTime]) -> Table:
    lines = table(["kernel"], ["calls", "total us", "share", "mean us"])
    lines.add_column("constants")
    for kernel in kernels:
        lines.add_row(
            kernel.name,
            str(kernel.calls),
            f"{1e6 * kernel.seconds:,.1f}",
            f"{100 * kernel.share:.1f} %",
            f"{1e6 * kernel.seconds / kernel.calls:,.2f}",
            kernel.constants,
        )
    return lines


def _shares(stages: list[Stage]) -> Table:
    lines = table(["stage"], ["seconds", "share", "GFLOP/s", "GB/s"])
    for stage in stages:
        seconds = stage.timing.median or float("inf")
        lines.add_row(
            stage.name,
            f"{stage.timing.median:.6f}",
            f"{100 * stage.share:.1f} %",
            f"{stage.work.flop / seconds / 1e9:,.1f}",
            f"{stage.work.bytes / seconds / 1e9:,.1f}",
        )
    return lines
