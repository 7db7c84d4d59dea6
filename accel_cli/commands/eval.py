"""`accel eval`: how right a model is on labelled texts."""

from __future__ import annotations

import io
import json
from contextlib import ExitStack
from typing import Any

import click

from accel_cli.classifier import Classifier
from accel_cli.commands import HELP
from accel_cli.commands.options import (
    Real,
    configured,
    labelled_options,
    model_options,
    option,
    plan_options,
    say,
)
from accel_cli.commands.progress import Progress
from accel_cli.errors import AccelError, InputError, UsageError
from accel_cli.evaluation import BINS, Tally, evaluate
from accel_cli.pipeline import Summary
from accel_cli.provenance import provenance
from accel_cli.text.labelled import Labelled
from accel_cli.text.readers import default_inputs
from accel_cli.text.writers import opened_output

_MATRIX = 12  # labels whose confusion is shown as a matrix; of more, the most frequent mistakes
_TEXT = 100  # characters shown of a text


class NotAccurate(AccelError):
    """The accuracy is under the one asked for."""


@click.command(context_settings=HELP)
@labelled_options
@option("--worst", type=click.IntRange(0), default=10, show_default=True, help="Mistakes to show.")
@option("--min-accuracy", type=Real(0, 1), help="Exit with 1 below this accuracy.")
@option("--json", "report", metavar="FILE", help="Write all figures to a file.")
@option("--overwrite", is_flag=True, help="Replace a file of figures that exists.")
@model_options
@plan_options
def command(
    inputs: tuple[str, ...],
    input_format: str | None,
    column: str | None,
    label_column: str | None,
    worst: int,
    min_accuracy: float | None,
    report: str | None,
    overwrite: bool,
    config: str,
    device: str,
    **plan: Any,
) -> None:
    """Compare a model's labels with those in a file: accuracy, F1, confusion, calibration, mistakes.

    A label is a name of the model's or its index. A file has lines of label<TAB>text, or a header
    (csv; else if a field of line 1 is `label`, or --column or --label-column is given), or is jsonl.

    \b
    accel eval --input labelled.tsv
    accel eval --input reviews.csv --column review --label-column stars --config my-model/
    """
    loaded = configured(config, **plan)
    sources = [Labelled(path, input_format, column, label_column) for path in inputs or default_inputs()]
    if not sources:
        raise UsageError("nothing to evaluate; name a file with --input, or pipe labelled text in")
    with ExitStack() as stack:
        file = stack.enter_context(opened_output(report, overwrite)) if report is not None else None
        classifier = stack.enter_context(Classifier(loaded, device))
        say(f"{classifier.plan}")
        # nothing is printed until the end, so the bar is in nobody's way
        bar = stack.enter_context(Progress([source.source for source in sources], io.BytesIO()))
        tally = evaluate(classifier, sources, worst, lambda rows: bar.update(Summary(sentences=rows)))
        bar.stop()
        if not tally.rows:
            raise InputError(f"no labelled rows in {', '.join(source.place for source in sources)}")
        if file is not None:
            found = {
                "config": loaded.name,
                "inputs": [source.place for source in sources],
                "plan": str(classifier.plan),
                **provenance(),
                **tally.as_json(),
            }
            file.write((json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    if report != "-":
        _show(tally)
    if min_accuracy is not None and tally.accuracy < min_accuracy:
        raise NotAccurate(f"accuracy is {tally.accuracy:.4f}, under --min-accuracy {min_accuracy}")


def _show(tally: Tally) -> None:
    """Print the figures as plain text."""
    rate = tally.rows / tally.seconds if tally.seconds else 0.0
    click.echo(f"rows {tally.rows}, accuracy {tally.accuracy:.4f}, macro F1 {tally.macro_f1:.4f}")
    click.echo(f"{rate:.0f} sentences/s in {tally.seconds:.3f} s, reading included")
    _table(
        ["label", "rows", "predicted", "precision", "recall", "F1"],
        [
            [f.label, f.rows, f.predicted, f"{f.precision:.4f}", f"{f.recall:.4f}", f"{f.f1:.4f}"]
            for f in tally.by_label()
        ],
    )
    _show_confusion(tally)
    click.echo(
        f"\nexpected calibration error {tally.calibration_error:.4f}, in {BINS} equal bins of the score"
    )
    _table(
        ["score", "rows", "mean score", "accuracy"],
        [[f"{b.low:.3f}-{b.high:.3f}", b.rows, f"{b.score:.4f}", f"{b.accuracy:.4f}"] for b in tally.bins()],
    )
    if worst := tally.worst():
        click.echo("\nmost wrong, by the score of the true label")
        _table(
            ["true", "predicted", "score", "true score", "at", "text"],
            [[m.truth, m.predicted, f"{m.score:.4f}", f"{m.true_score:.4f}", m.place, m.text] for m in worst],
            words=(0, 1, 4, 5),
        )


def _show_confusion(tally: Tally) -> None:
    if len(tally.labels) <= _MATRIX:
        click.echo("\nconfusion: a row for each true label, a column for each predicted one")
        rows = zip(tally.labels, tally.confusion.tolist(), strict=True)
        _table(["", *tally.labels], [[label, *counts] for label, counts in rows])
        return
    wrong = [
        (int(count), truth, predicted)
        for truth, counts in zip(tally.labels, tally.confusion, strict=True)
        for predicted, count in zip(tally.labels, counts, strict=True)
        if count and truth != predicted
    ]
    click.echo("\nmost frequent mistakes")
    wrong.sort(key=lambda entry: -entry[0])
    _table(["true", "predicted", "rows"], [[t, p, count] for count, t, p in wrong[:20]], words=(0, 1))


def _table(head: list[str], rows: list[list[Any]], words: tuple[int, ...] = (0,)) -> None:
    """Print rows below their heads; columns of `words` to the left, the others to the right."""
    cells = [head, *([_shown(value) for value in row] for row in rows)]
    sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
    click.echo()
    for row in cells:
        padded = [
            value.ljust(size) if index in words else value.rjust(size)
            for index, (value, size) in enumerate(zip(row, sizes, strict=True))
        ]
        click.echo(("  " + "  ".join(padded)).rstrip())


def _shown(value: Any) -> str:
    """A value on one line: what a terminal would obey is replaced, and a long text is cut."""
    text = "".join(sign if sign.isprintable() else " " for sign in str(value))
    return text if len(text) <= _TEXT else text[: _TEXT - 3] + "..."
