"""`accel bench --suite latency`: its end."""

from __future__ import annotations

from accel_cli.bench import latency, latency_report
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import say
from accel_cli.model.config import Config


def measure_latency(config: Config, device: str, job: latency.Job, end: Publication) -> None:
    """Measure one sentence at a time, print it and write its figures."""
    end.of(lambda: latency.run(config, device, job, elapsed(say)), latency_report.show)
