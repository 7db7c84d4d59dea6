"""`accel train`: a model for a user's own labels."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from accel_cli.commands import HELP
from accel_cli.commands.options import Real, labelled_options, option, say
from accel_cli.errors import UsageError
from accel_cli.text.labelled import Labelled
from accel_cli.text.readers import default_inputs
from accel_cli.train.fit import Epoch
from accel_cli.train.job import Job, train
from accel_cli.train.networks import Watcher


@click.command(context_settings=HELP)
@labelled_options
@option("--dev", multiple=True, help="A file to judge by.  [default: rows held out, a tenth or more]")
@option("--output", required=True, help="The folder to write, which appears whole or not at all.")
@option("--overwrite", is_flag=True, help="Replace a model that exists.")
@option(
    "--base",
    default="sentiment",
    show_default=True,
    help="A model whose words and filters are kept and added to: a configuration, or none.",
)
@option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    default="auto",
    show_default=True,
    help="Where to train.",
)
@option("--epochs", type=click.IntRange(1), help="At most.  [default: by the rows: 10 for 10,000]")
@option("--batch-size", "batch", type=click.IntRange(1), default=64, show_default=True, help="Rows a step.")
@option("--rate", type=Real(0, min_open=True), default=4e-3, show_default=True, help="Learning rate.")
@option("--filters", type=click.IntRange(1), help="A width; only without a base.  [default: 512]")
@option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Another seed, another model.")
@option("--limit-seconds", type=Real(1), help="End the training after this time.")
def command(
    inputs: tuple[str, ...],
    input_format: str | None,
    column: str | None,
    label_column: str | None,
    dev: tuple[str, ...],
    output: str,
    limit_seconds: float | None,
    **settings: Any,
) -> None:
    """Train a model on labelled texts, two labels or more; needs the extra `train` (PyTorch).

    Files are those of `accel eval`. The folder that comes out is a model as any other:

    \b
    accel train --input labelled.tsv --output my-model
    accel run --config my-model --input reviews.txt
    """
    paths = inputs or default_inputs()
    if not paths:
        raise UsageError("nothing to train on; name a file with --input, or pipe labelled text in")
    sources, judges = (
        [Labelled(path, input_format, column, label_column) for path in part] for part in (paths, dev)
    )
    job = Job(sources, judges, Path(output), limit_seconds=limit_seconds or float("inf"), **settings)
    with _Bar() as bar:
        tally = train(job, Watcher(say, bar.tell, bar.report))
    say(
        f"wrote {output}: accuracy {tally.accuracy:.4f}, macro F1 {tally.macro_f1:.4f}, calibration error"
        f" {tally.calibration_error:.4f} on {tally.rows} rows held out"
    )


class _Bar:
    """A bar while it trains, on a terminal only, and a line an epoch."""

    def __init__(self) -> None:
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TimeRemainingColumn

            self._bar = Progress(
                "training", BarColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True
            )
            self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, progress: float) -> None:
        """The share of the training that is done."""
        if self._bar is not None:
            self._bar.start()
            self._bar.update(self._task, completed=progress)

    def report(self, epoch: Epoch) -> None:
        """What an epoch brought."""
        line = (
            f"epoch {epoch.number}: loss {epoch.loss:.4f}; held out: loss {epoch.held_loss:.4f}, accuracy"
            f" {epoch.held_accuracy:.4f}{', the best so far' if epoch.best else ''}; {epoch.seconds:.0f} s"
        )
        if self._bar is not None:
            self._bar.console.print(f"accel: {line}", highlight=False)
        else:
            say(line)
