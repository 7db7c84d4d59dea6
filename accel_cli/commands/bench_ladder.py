"""`accel bench --ladder`: its options and its end."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import click

from accel_cli.bench import ladder, ladder_report
from accel_cli.bench.elapsed import elapsed
from accel_cli.bench.picture import drawn, require_matplotlib
from accel_cli.bench.rungs import PACKAGED, numbers
from accel_cli.commands.bench_published import Publication
from accel_cli.commands.options import Command, option, say
from accel_cli.errors import AccelError, OutputError, UsageError
from accel_cli.text.writers import claim, opened_output


def ladder_options(command: Command) -> Command:
    """--ladder, --rungs and --picture."""
    for decorate in (
        option(
            "--picture",
            "pictures",
            metavar="FILE",
            type=click.Path(),
            multiple=True,
            help="With --ladder: draw it into a .png or .svg file (extra `plot`); may be repeated.",
        ),
        option("--rungs", metavar="LIST", help="With --ladder: some of the rungs, like 4,6-10."),
        option(
            "--ladder",
            "folder",
            metavar="[DIR]",
            is_flag=False,
            flag_value=str(PACKAGED),
            help="Measure every rung of a ladder, one plan after the other; a folder of plans, or the"
            " packaged one.",
        ),
    ):
        command = decorate(command)
    return command


class LadderFailed(AccelError):
    """A rung computes something else than the goldens, or cannot run."""


def climb(
    folder: Path,
    rungs: str | None,
    sentences: int,
    repeats: int,
    device: str,
    peer: str | None,
    pictures: tuple[str, ...],
    end: Publication,
) -> None:
    """Measure a ladder, print it, write its figures and draw them; LadderFailed if a rung was not timed."""
    if peer == "torch-folded":
        raise UsageError(
            "--peer torch-folded: rungs are given embeddings too, which cannot be folded; say --peer"
            " torch, or measure one of them with --config FILE"
        )
    chosen = None if rungs is None else numbers(rungs)
    job = ladder.Job(folder, chosen, sentences, repeats, device, peer is not None)
    require_matplotlib(pictures)
    figures = Figures(end)
    with ExitStack() as stack:
        drawings = {path: stack.enter_context(opened_output(path, end.overwrite)) for path in pictures}
        found = ladder.run(job, elapsed(say), figures.keep)
        figures.keep(found)
        if end.path != "-":
            ladder_report.show(found)
        for path, picture in drawings.items():
            picture.write(drawn(found.as_json(), Path(path).suffix))
    if found.failed:
        raise LadderFailed(f"not timed: {', '.join(found.failed)}")


class Figures:
    """The file of a ladder's figures, whole after every rung: a climb that is cut short is not lost.

    OutputError at once if it cannot be written: minutes of measuring must not end in "no such folder".
    """

    def __init__(self, end: Publication) -> None:
        self._path, self._overwrite = end.path, end.overwrite
        if end.path is not None and end.path != "-":
            folder = claim(end.path, end.overwrite).parent
            if not os.access(folder, os.W_OK):
                raise OutputError(f"cannot write into {folder}; name a file in another folder")

    def keep(self, found: ladder_report.LadderReport) -> None:
        """Write what is known; to stdout only when that is all."""
        if self._path is None or (self._path == "-" and not found.complete):
            return
        with opened_output(self._path, self._overwrite) as file:
            file.write(found.text().encode())
        self._overwrite = True  # it is ours now
