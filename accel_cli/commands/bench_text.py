"""`accel bench --suite text`: its option and its end."""

from __future__ import annotations

from contextlib import ExitStack

from accel_cli.bench import text_report, text_suite
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands.options import Command, Size, option, say
from accel_cli.errors import UsageError
from accel_cli.model.config import Config
from accel_cli.text.writers import opened_output


def text_options(command: Command) -> Command:
    """--bytes."""
    return option(
        "--bytes",
        "size",
        type=Size(),
        help="With --suite text: bytes of the text that sentences are repeated into, as 256M."
        "  [default: 1G for a GPU, 64M for a CPU]",
    )(command)


def measure_text(
    config: Config, device: str, job: text_suite.Job, report: str | None, overwrite: bool
) -> None:
    """Measure a file of text -> rows, print it and write its figures."""
    for name in job.peers:
        if name not in text_suite.PEERS:
            raise UsageError(
                f"--peer {name}: with --suite text a peer reads text; say {' or '.join(text_suite.PEERS)}"
            )
    with ExitStack() as stack:
        file = stack.enter_context(opened_output(report, overwrite)) if report is not None else None
        found = text_suite.run(config, device, job, elapsed(say))
        if report != "-":
            text_report.show(found)
        if file is not None:
            file.write(found.text().encode())


def only_peer(peers: tuple[str, ...]) -> str | None:
    """The one peer of a network; UsageError if there are several, or one that takes nothing but text."""
    if "fasttext" in peers:
        raise UsageError(
            "--peer fasttext: it is another model, and reads text; say --suite text, or leave it out"
        )
    if len(peers) > 1:
        raise UsageError(f"--peer {' --peer '.join(peers)}: only --suite text has several; say one of them")
    return peers[0] if peers else None
