"""`accel bench --suite shards`: its option and its end."""

from __future__ import annotations

import click

from accel_cli.bench import shards, shards_report
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import Command, option, say
from accel_cli.model.config import Config

WORKERS = 2


def shards_options(command: Command) -> Command:
    """--workers."""
    return option(
        "--workers",
        type=click.IntRange(2, 1024),
        help="With --suite shards, or scaling on a CPU: processes to compare with one."
        f"  [default: {WORKERS}]",
    )(command)


def measure_shards(config: Config, job: shards.Job, end: Publication) -> None:
    """Measure workers beside a single process, print it and write its figures."""
    end.of(lambda: shards.run(config, job, elapsed(say)), shards_report.show)
