"""`accel run`: the main job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path

import click

from accel_cli.classifier import Classifier
from accel_cli.commands import HELP
from accel_cli.commands.options import configured, debug_option, model_options, option, plan_options, say
from accel_cli.commands.progress import Progress
from accel_cli.commands.signals import Interruptions
from accel_cli.errors import OutputError, UsageError
from accel_cli.pipeline import ON_ERROR, Pipeline, Summary
from accel_cli.text.arrays import holds_embeddings
from accel_cli.text.readers import KINDS, Source, default_inputs
from accel_cli.text.rows import FIELDS, FORMATS, TextFormatter
from accel_cli.text.writers import opened_output, write_all


@click.command(context_settings=HELP)
@option(
    "--input", "inputs", type=click.Path(), multiple=True, help="A file, or - for stdin. May be repeated."
)
@option("--input-format", type=click.Choice(KINDS), help="What the inputs hold.  [default: by name]")
@option("--column", help="The column of a csv or tsv, or the key of a jsonl.  [default: text]")
@option("--output", help="A file, which appears whole or not at all.  [default: stdout]")
@option("--overwrite", is_flag=True, help="Replace an output that exists.")
@option(
    "--format",
    "layout",
    type=click.Choice(FORMATS),
    default="tsv",
    show_default=True,
    help="The layout of the rows; csv has a header.",
)
@option("--fields", default="label,score", show_default=True, help=f"Of {','.join(FIELDS)}.")
@option(
    "--on-error",
    type=click.Choice(ON_ERROR),
    help="What becomes of bytes that are not UTF-8 and of broken records.  [default: bytes: replace,"
    " records: fail]",
)
@model_options
@plan_options
@debug_option
def command(
    inputs: tuple[str, ...],
    input_format: str | None,
    column: str | None,
    output: str | None,
    overwrite: bool,
    layout: str,
    fields: str,
    on_error: str | None,
    config: str,
    device: str,
    precision: str | None,
    batch: int | None,
    streams: int | None,
    kernel_debug: str | None,
) -> None:
    """Classify sentences: one output line for each input line, in order.

    \b
    accel run --input reviews.txt
    zcat crawl.gz | accel run --input - --format jsonl --fields text,label,score
    """
    loaded = configured(config, precision=precision, batch=batch, streams=streams, kernel_debug=kernel_debug)
    sources = [Source(path, input_format, column) for path in inputs or default_inputs()]
    if not sources:
        raise UsageError("nothing to classify; name a file with --input, or pipe text in")
    chosen = _fields(fields, sources)
    embeddings = _embeddings(sources)
    formatter = TextFormatter(layout, chosen, loaded.model.labels)
    with ExitStack() as stack:
        interruptions = stack.enter_context(Interruptions())
        file = stack.enter_context(opened_output(output, overwrite))
        classifier = stack.enter_context(Classifier(loaded, device, embeddings=embeddings))
        say(f"{classifier.plan}")
        progress = stack.enter_context(Progress(sources, file))
        write = _writer(file, output or "stdout")
        pipeline = Pipeline(classifier, formatter, write, on_error, progress.update, interruptions.held)
        try:
            pipeline.run(sources)
        except PipeClosed:
            return
        except (KeyboardInterrupt, SystemExit):
            progress.stop()
            done = pipeline.summary.sentences
            say(
                f"stopped early; {done} rows were written, all of them whole"
                if output in (None, "-")
                else f"stopped early after {done} rows; {output} was not written"
            )
            raise
        finally:
            progress.stop()
        report(pipeline.summary)


class PipeClosed(Exception):
    """Whoever read the output wants no more of it."""


def _writer(file: FileIO, name: str) -> Callable[[bytes], None]:
    """Writes whole chunks; an error names the output."""

    def write(rows: bytes) -> None:
        try:
            write_all(file, rows)
        except BrokenPipeError:
            raise PipeClosed from None
        except OSError as error:
            raise OutputError(
                f"cannot write to {name}: {error.strerror}; free some space or name another file"
            ) from error

    return write


def _fields(fields: str, sources: Sequence[Source]) -> list[str]:
    chosen = [name.strip() for name in fields.split(",")]
    for name in chosen:
        if name not in FIELDS:
            raise UsageError(f"--fields: {name!r} is not one of {', '.join(FIELDS)}")
    if len(set(chosen)) != len(chosen):
        raise UsageError(f"--fields {fields}: a field is named twice")
    if "text" in chosen and any(source.arrays for source in sources):
        raise UsageError("--fields text: token ids and embeddings have no text; choose other fields")
    return chosen


def _embeddings(sources: Sequence[Source]) -> bool:
    """Whether the inputs are embeddings; all or none of them must be."""
    kinds = {source.arrays and holds_embeddings(Path(source.path), source.kind) for source in sources}
    if len(kinds) > 1:
        raise UsageError("embeddings and other inputs do not go together; run them one after the other")
    return kinds.pop()


def report(summary: Summary) -> None:
    """The last lines on stderr: what was done, and what was odd."""
    rate = summary.sentences / summary.seconds if summary.seconds else 0.0
    say(f"{summary.sentences} sentences in {summary.seconds:.3f} s, {rate:.0f} sentences/s")
    say("labels: " + ", ".join(f"{name} {count}" for name, count in summary.labels.items()))
    say(
        f"truncated {summary.truncated}, blank {summary.blank}, replaced bytes {summary.replaced_bytes},"
        f" failed records {summary.failed}"
    )
    if summary.replaced_bytes:
        say("some bytes were not UTF-8; they count as parts of words and print as U+FFFD")
    if summary.first_failure:
        say(f"the first failed record: {summary.first_failure}")
