"""The figures on a terminal: tables of rates, of the time in each stage and, if asked, in each kernel."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console
from rich.table import Table

from accel_cli.bench.profile import KernelTime
from accel_cli.bench.report import Report, Row, Stage

_PLAIN_WIDTH = 160  # columns when nobody watches: wide enough that no figure is cut


def show(report: Report) -> None:
    """Print the tables on stdout, with lines and colour only on a terminal."""
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _PLAIN_WIDTH, no_color=not terminal, highlight=False)
    console.print(f"{report.suite}: {report.sentences} sentences, {report.tokens} tokens, {report.origin}")
    console.print(f"{report.plan}; loaded in {report.load_seconds:.3f} s")
    console.print("\nThroughput, by the median of the repeats:")
    console.print(_rates(report.rows, terminal))
    where = "one thread" if report.plan.device == "cpu" else report.plan.device
    console.print(f"\nTime in each stage, all sentences, on {where}:")
    console.print(_shares(report.stages, terminal))
    if profile := report.profile:
        size = f"{profile.sentences} sentences in {profile.batches} batches"
        console.print(f"\nTime in each kernel, {size}, in turn on one stream:")
        console.print(_kernels(profile.kernels, terminal))


def _table(terminal: bool, words: list[str], numbers: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD if terminal else None)
    for name in words:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _rates(rows: list[Row], terminal: bool) -> Table:
    words = ["program", "clock", "input", ""]
    numbers = ["n", "batch", "sentences/s", "slowest", "fastest", "us each", "GFLOP/s", "GB/s", "x peer"]
    table = _table(terminal, words, [*numbers, "max error"])
    for row in rows:
        middle = row.timing.median
        table.add_row(
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
    return table


def _kernels(kernels: list[KernelTime], terminal: bool) -> Table:
    table = _table(terminal, ["kernel"], ["calls", "total us", "share", "mean us"])
    table.add_column("constants")
    for kernel in kernels:
        table.add_row(
            kernel.name,
            str(kernel.calls),
            f"{1e6 * kernel.seconds:,.1f}",
            f"{100 * kernel.share:.1f} %",
            f"{1e6 * kernel.seconds / kernel.calls:,.2f}",
            kernel.constants,
        )
    return table


def _shares(stages: list[Stage], terminal: bool) -> Table:
    table = _table(terminal, ["stage"], ["seconds", "share", "GFLOP/s", "GB/s"])
    for stage in stages:
        seconds = stage.timing.median or float("inf")
        table.add_row(
            stage.name,
            f"{stage.timing.median:.6f}",
            f"{100 * stage.share:.1f} %",
            f"{stage.work.flop / seconds / 1e9:,.1f}",
            f"{stage.work.bytes / seconds / 1e9:,.1f}",
        )
    return table
