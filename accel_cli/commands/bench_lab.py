"""`accel bench --suite memory` and the other experiments of the lab: their end."""

from __future__ import annotations

from accel_cli.bench.elapsed import elapsed
from accel_cli.bench.lab import experiments
from accel_cli.bench.lab.report import show
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import say


def measure_experiment(name: str, device: str, repeats: int, end: Publication) -> None:
    """Run an experiment, print its table and write its figures."""
    end.of(lambda: experiments.run(name, device, repeats, elapsed(say)), show)
