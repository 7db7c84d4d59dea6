"""`accel bench --suite shards`: its option and its end."""

from __future__ import annotations

from contextlib import ExitStack

import click

from accel_cli.bench import shards, shards_report
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.options import Command, option, say
from accel_cli.model.config import Config
from accel_cli.text.writers import opened_output

WORKERS = 2


def shards_options(command: Command) -> Command:
    """--workers."""
    return option(
        "--workers",
        type=click.IntRange(2, 1024),
        help=f"With --suite shards: processes to compare with one.  [default: {WORKERS}]",
    )(command)


def measure_shards(config: Config, job: shards.Job, report: str | None, overwrite: bool) -> None:
    """Measure workers beside a single process, print it and write its figures."""
    with ExitStack() as stack:
        file = stack.enter_context(opened_output(report, overwrite)) if report is not None else None
        found = shards.run(config, job, elapsed(say))
        if report != "-":
            shards_report.show(found)
        if file is not None:
            file.write(found.text().encode())
