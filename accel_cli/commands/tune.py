"""`accel tune`: what is fastest on this device, kept for later."""

from __future__ import annotations

import os
from pathlib import Path

import click

from accel_cli import resources
from accel_cli.bench.elapsed import elapsed
from accel_cli.bench.tune import tune
from accel_cli.commands import HELP
from accel_cli.commands.options import Real, configured, model_options, option, plan_options, say
from accel_cli.cuda.device import choose_gpu, facts, index_of
from accel_cli.engines.tuned import Tuned, load_tuned, numbers, own_file
from accel_cli.errors import ConfigError, OutputError
from accel_cli.text.writers import beside


@click.command(context_settings=HELP)
@option(
    "--seconds",
    type=Real(min=1),
    default=300,
    show_default=True,
    help="About how long to search.",
)
@option(
    "--output",
    metavar="FILE",
    help="Leave what was found in this file, beside what is there.  [default: one in accel's cache folder,"
    " which is read whenever this device is used]",
)
@model_options
@plan_options
def command(
    seconds: float,
    output: str | None,
    config: str,
    device: str,
    precision: str | None,
    batch: int | None,
    streams: int | None,
    kernels: str | None,
) -> None:
    """Find the tiles of matrix products, the batch and the streams that are fastest for a model on a GPU.

    Every tile is checked before it is timed. None changes any result. What is found is kept at once, so
    Ctrl-C costs no finding.

    \b
    accel tune --config school
    accel tune --device cuda:1 --seconds 60 --batch 512
    """
    loaded = configured(config, precision=precision, batch=batch, streams=streams, kernels=kernels)
    place = choose_gpu(loaded.plan.device if device == "auto" else device, "accel tune")
    gpu = facts(index_of(place))
    path = Path(output) if output is not None else own_file(gpu)
    known = Tuned(gpu.name)
    if os.path.exists(path):
        try:
            known = load_tuned(path, gpu)
        except ConfigError as error:
            if output is not None:
                raise OutputError(f"{error}; what is in that file would be lost: name another one") from error
            say(f"{error}; this file is made anew")
    if output is None:
        path = resources.writable_cache("tuned") / path.name
    file = _File(path, known)
    try:
        found = tune(loaded, place, seconds, elapsed(say), file.keep)
    finally:
        if file.kept:
            say(f"wrote {path}")
    for plan in found.plans:
        click.echo(f"--batch {plan.batch} --streams {plan.streams}: {plan.sentences_per_s:,.0f} sentences/s")
    for one in found.products:
        click.echo(f"{one.product}: {numbers(one.tile)} {one.tflops:.1f} TFLOP/s")


class _File:
    """Holds all that was found so far, whole at any time: what ends the search early costs no finding."""

    def __init__(self, path: Path, known: Tuned) -> None:
        self._path, self._known, self.kept = path, known, False

    def keep(self, found: Tuned) -> None:
        """Write a finding, beside or in the place of older ones."""
        self._known = self._known.joined(found)
        with beside(str(self._path), overwrite=True) as temporary:
            Path(temporary).write_text(self._known.text(), "utf-8")
        self.kept = True
