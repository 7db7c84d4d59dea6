"""What bounds each stage on a terminal: what the device can do, then a table of stages for each unit."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from accel_cli.bench.bounds import Bounds, Part, StageBounds
from accel_cli.bench.limits import L2, MEMORY_BYTES, PCIE_IN, PCIE_OUT, Limits, rate_text
from accel_cli.bench.terminal import table

_NONE = "-"


def shown(bounds: Bounds) -> Iterator[str | Table]:
    """What is printed, one after the other."""
    yield "\nThe most that can be had here, measured in this run:"
    yield _limits(bounds.limits)
    for part in bounds.parts:
        unit = f"{part.unit} of {part.sentences} sentences"
        yield f"\nWhat bounds each stage of a {unit}, one after the other:"
        yield _stages(part, bounds.limits)
        yield _summary(part)


def _limits(limits: Limits) -> Table:
    lines = table(["resource"], ["a second"])
    lines.add_column("measured by")
    for name, most in limits.rates.items():
        lines.add_row(name, rate_text(name, most), limits.how[name])
    return lines


def _stages(part: Part, limits: Limits) -> Table:
    lines = table(["stage"], ["us", "share", "launches", "GFLOP", "L2 MB", "memory MB", "PCIe MB"])
    lines.add_column("bound", no_wrap=True)
    for name in ("reached", "at most", "% of it"):
        lines.add_column(name, justify="right", no_wrap=True)
    for stage in part.stages:
        lines.add_row(
            stage.name,
            f"{1e6 * stage.seconds:,.1f}",
            f"{100 * stage.seconds / part.seconds:.1f} %" if part.seconds else _NONE,
            str(stage.launches or _NONE),
            f"{stage.need.flop / 1e9:,.2f}" if stage.need.flop else _NONE,
            *(_megabytes(stage, names) for names in ((L2,), (MEMORY_BYTES,), (PCIE_IN, PCIE_OUT))),
            *_bound(stage, limits),
        )
    if part.host is not None and part.host_share is not None:
        busy = f"{100 * part.host_share:.1f}"
        lines.add_row("host", f"{1e6 * part.host:,.1f}", *[_NONE] * 6, "host", _NONE, _NONE, busy)
    return lines


def _megabytes(stage: StageBounds, names: tuple[str, ...]) -> str:
    moved = sum(stage.need.demand.get(name, 0.0) for name in names)
    return f"{moved / 1e6:,.2f}" if moved else _NONE


def _bound(stage: StageBounds, limits: Limits) -> list[str]:
    """The nearest limit: its name, the rate reached, that which can be had, and what part of it that is."""
    bound = stage.bound
    if bound is None:
        return 4 * [_NONE]
    most = limits.rates[bound.resource]
    rates = (rate_text(bound.resource, value) for value in (bound.share * most, most))
    return [bound.resource, *rates, f"{100 * bound.share:.1f}"]


def _summary(part: Part) -> str:
    under_way = f"{part.streams} threads" if part.host is None else f"{part.streams} of them under way"
    told = (
        f"A {part.unit}: {1e6 * part.seconds:,.1f} us of stages, {1e6 * part.wall:,.1f} us on the wall with"
        f" {under_way}: {part.overlap:.2f} stages at once"
    )
    if part.host is None or part.host_share is None:
        return told
    threads = "the host's thread is" if part.threads == 1 else f"the host's {part.threads} threads are"
    return f"{told}; {threads} busy for {100 * part.host_share:.0f} % of that"
