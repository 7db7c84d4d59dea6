"""`accel bench --suite scaling`: its option and its end."""

from __future__ import annotations

from accel_cli.bench import scaling, scaling_report
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import Command, Size, option, say
from accel_cli.model.config import Config
from accel_cli.shards.devices import devices_of


def scaling_options(command: Command) -> Command:
    """--shard-size."""
    return option(
        "--shard-size",
        type=Size(),
        help="With --suite scaling: bytes of text that go into a part file.  [default: 256M]",
    )(command)


def measure_scaling(
    config: Config, device: str, workers: int | None, job: scaling.Job, end: Publication
) -> None:
    """Measure one device beside several, print it and write its figures."""
    devices = devices_of(config.plan, device, workers)
    end.of(lambda: scaling.run(config, devices, job, elapsed(say)), scaling_report.show)
