"""`accel bench --suite text`: its option and its end."""

from __future__ import annotations

from accel_cli.bench import text_report, text_suite
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import Command, Size, option, say
from accel_cli.errors import UsageError
from accel_cli.model.config import Config


def text_options(command: Command) -> Command:
    """--bytes."""
    return option(
        "--bytes",
        "size",
        type=Size(),
        help="With --suite text or scaling: bytes of the text that sentences are repeated into, as 256M."
        "  [default: 1G for a GPU, 64M for a CPU; with --suite scaling 4G]",
    )(command)


def measure_text(config: Config, device: str, job: text_suite.Job, end: Publication) -> None:
    """Measure a file of text -> rows, print it and write its figures."""
    for name in job.peers:
        if name not in text_suite.PEERS:
            raise UsageError(
                f"--peer {name}: with --suite text a peer reads text; say {' or '.join(text_suite.PEERS)}"
            )
    end.of(lambda: text_suite.run(config, device, job, elapsed(say)), text_report.show)
