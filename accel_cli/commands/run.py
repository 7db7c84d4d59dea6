"""`accel run`: the main job."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from accel_cli.classifier import Classifier
from accel_cli.commands import HELP
from accel_cli.commands.folder_options import Sharding, folder_options
from accel_cli.commands.options import configured, debug_option, model_and_devices, option, plan_options, say
from accel_cli.commands.progress import Progress
from accel_cli.commands.run_rows import PipeClosed, report, writer
from accel_cli.commands.signals import Interruptions
from accel_cli.errors import UsageError
from accel_cli.pipeline import ON_ERROR, Pipeline
from accel_cli.shards.job import Job
from accel_cli.text.arrays import holds_embeddings
from accel_cli.text.formatters import LAYOUTS, formatter_of
from accel_cli.text.inputs import expanded
from accel_cli.text.kinds import KINDS
from accel_cli.text.readers import Source, default_inputs
from accel_cli.text.rows import FIELDS, Formatter
from accel_cli.text.urls import is_url
from accel_cli.text.writers import opened_output


@click.command(context_settings=HELP)
@option(
    "--input", "inputs", type=click.Path(), multiple=True, help="A file, or - for stdin. May be repeated."
)
@option("--input-format", type=click.Choice(KINDS), help="What the inputs hold.  [default: by name]")
@option("--column", help="The column of a csv, tsv or Parquet file, or the key of a jsonl.  [default: text]")
@option(
    "--output",
    help="A file, which appears whole or not at all; or a folder (existing, or with a / at the end) of part"
    " files.  [default: stdout]",
)
@option("--overwrite", is_flag=True, help="Replace an output that exists.")
@option(
    "--format",
    "layout",
    type=click.Choice(LAYOUTS),
    default="tsv",
    show_default=True,
    help="The layout of the rows; csv has a header.",
)
@option("--keep", default="", help="Columns of Parquet inputs that go into Parquet rows, as id,date.")
@option("--fields", default="label,score", show_default=True, help=f"Of {','.join(FIELDS)}.")
@option(
    "--on-error",
    type=click.Choice(ON_ERROR),
    help="What becomes of bytes that are not UTF-8 and of broken records.  [default: bytes: replace,"
    " records: fail]",
)
@folder_options
@model_and_devices
@plan_options
@debug_option
def command(
    inputs: tuple[str, ...],
    input_format: str | None,
    column: str | None,
    output: str | None,
    overwrite: bool,
    layout: str,
    keep: str,
    fields: str,
    on_error: str | None,
    shard_size: int | None,
    workers: int | None,
    resume: bool,
    merged: str | None,
    engine: str,
    address: str | None,
    config: str,
    device: str,
    **plan: Any,
) -> None:
    """Classify sentences: one output line for each input line, in order.

    \b
    accel run --input reviews.txt
    zcat crawl.gz | accel run --input - --format jsonl --fields text,label,score
    accel run --input 'crawl/*.txt' --output labels/ --device cuda:all
    """
    loaded = configured(config, **plan)
    kept = _kept(keep, layout)
    paths = expanded(inputs or default_inputs())
    sources = [Source(path, input_format, column, keep=kept) for path in paths]
    if not sources:
        raise UsageError("nothing to classify; name a file with --input, or pipe text in")
    chosen = _fields(fields, sources)
    embeddings = _embeddings(sources)
    sharding = Sharding(shard_size, workers, resume, overwrite, merged, engine, address)
    _refuse_urls(output, merged)
    if output is not None and (output.endswith(os.sep) or os.path.isdir(output)):
        job = Job(loaded, Path(output), layout, chosen, kept, on_error, embeddings)
        from accel_cli.commands.run_folder import run_folder  # and all of shards/, which one file needs not

        run_folder(job, sources, device, sharding)
        return
    sharding.refuse(device)
    formatter = formatter_of(layout, chosen, loaded.model.labels, sources)
    _run_file(
        sources,
        partial(Classifier, loaded, device, embeddings=embeddings),
        formatter,
        on_error,
        output,
        overwrite,
    )


def _run_file(
    sources: Sequence[Source],
    load: Callable[[], Classifier],
    formatter: Formatter,
    on_error: str | None,
    output: str | None,
    overwrite: bool,
) -> None:
    """Write all rows to one output."""
    with ExitStack() as stack:
        interruptions = stack.enter_context(Interruptions())
        file = stack.enter_context(opened_output(output, overwrite))
        classifier = stack.enter_context(load())
        say(f"{classifier.plan}")
        progress = stack.enter_context(Progress(sources, file))
        write = writer(file, output or "stdout")
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


def _refuse_urls(output: str | None, merged: str | None) -> None:
    """UsageError if rows were to go elsewhere."""
    for name, path in (("--output", output), ("--merge", merged)):
        if path is not None and is_url(path):
            raise UsageError(f"{name} {path}: rows are written to this machine; name a file or a folder here")


def _kept(keep: str, layout: str) -> tuple[str, ...]:
    """The columns to keep."""
    if keep and layout != "parquet":
        raise UsageError(
            f"--keep {keep}: only rows of --format parquet keep columns; say that, or leave it out"
        )
    return tuple(name.strip() for name in keep.split(",")) if keep else ()


def _fields(fields: str, sources: Sequence[Source]) -> tuple[str, ...]:
    chosen = tuple(name.strip() for name in fields.split(","))
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
