"""`accel bench --serve`: its options and its end. A module of its own, since it needs the extra `serve`."""

from __future__ import annotations

from accel_cli.bench import serve_report, serve_suite
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import Command, Real, option, say
from accel_cli.commands.serve import require_packages
from accel_cli.errors import AccelError
from accel_cli.model.config import Config

SECONDS = 3.0


class ServeFailed(AccelError):
    """An answer was wrong or lost, or the server did not come back."""


def serve_options(command: Command) -> Command:
    """--serve, --seconds and --soak."""
    for decorate in (
        option(
            "--soak",
            type=Real(0.1, 1e6),
            metavar="SECONDS",
            help="With --serve: ask for twice what the server can do, for so long, and check every answer.",
        ),
        option(
            "--seconds",
            type=Real(0.1, 3600),
            help=f"With --serve: how long each repeat asks.  [default: {SECONDS:g}]",
        ),
        option(
            "--serve",
            is_flag=True,
            help="Measure `accel serve` over loopback (extra `serve`); load from wrk, if it is installed.",
        ),
    ):
        command = decorate(command)
    return command


def drive(config: Config, device: str, job: serve_suite.Job, end: Publication) -> None:
    """Measure a server, print it and write its figures; ServeFailed if it did not stand the overload."""
    require_packages("accel bench --serve")
    found = end.of(lambda: serve_suite.run(config, device, job, elapsed(say)), serve_report.show)
    if found.soak and not found.soak.passed:
        counts = found.soak.counts
        raise ServeFailed(
            f"under twice the load {counts.wrong} answers were wrong, {counts.failed} requests lost or"
            f" refused without a 429, {counts.right} right; a new request was"
            f" {'answered' if found.soak.recovery is not None else 'not answered'} when it was over"
        )
