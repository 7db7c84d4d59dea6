"""`accel plan-scale`: what a large text would need, before anyone pays for it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import Any

import click

from accel_cli.commands import HELP
from accel_cli.commands.options import Command, Real, Size, option
from accel_cli.scale.plan import Question, plan
from accel_cli.scale.report import show
from accel_cli.text.writers import opened_output

_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_POSITIVE = Real(1e-6, 1e15)
_SHARE = Real(0, 1)


class Quantity(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes, of bytes a second or of bits a second, in powers of ten: 1P, 2.5T, 400G."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTP]?)B?", str(value).strip().upper())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is no size; write a number and K, M, G, T or P, as 1P", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def fleet_options(command: Command) -> Command:
    """The text, the machines and their prices."""
    for decorate in (
        option("--core-price", type=_POSITIVE, help="What a CPU core costs an hour, in any currency."),
        option(
            "--gpu-price", type=_POSITIVE, help="What a GPU costs an hour, its share of the machine in it."
        ),
        option("--network", type=Quantity(), help="Bits a second that a machine's network carries, as 25G."),
        option("--storage", type=Quantity(), help="Bytes a second that a machine reads and writes, as 3G."),
        option(
            "--cores",
            type=click.IntRange(1, 1 << 16),
            help="Cores of a machine beside its GPUs.  [default: those of the measured machine]",
        ),
        option(
            "--units",
            type=click.IntRange(1, 1 << 16),
            help="GPUs of a machine; of figures from a CPU, its cores.  [default: as measured]",
        ),
        option("--deadline", type=_POSITIVE, metavar="HOURS", help="When it must be done."),
        option(
            "--nodes",
            type=click.IntRange(1, 1 << 20),
            help="Machines.  [default: as many as the deadline needs, else 1]",
        ),
        option("--bytes", "text_bytes", type=Quantity(), default="1P", show_default=True, help="Of text."),
    ):
        command = decorate(command)
    return command


def pace_options(command: Command) -> Command:
    """What is measured, and what is given where nothing was measured."""
    for decorate in (
        option(
            "--fasttext",
            type=_POSITIVE,
            metavar="RATE",
            help="Sentences a second that fastText classifies on one core of yours, to compare with.",
        ),
        option(
            "--sentence-bytes",
            type=_POSITIVE,
            help="Bytes of a measured sentence and its line end, where the figures do not say.",
        ),
        option(
            "--sentences-per-s",
            type=_POSITIVE,
            metavar="RATE",
            help="From text to rows on one GPU, or one core: without --figures, or in the place of theirs.",
        ),
        option(
            "--against",
            type=click.Path(),
            multiple=True,
            help="Figures of another machine, to compare with. May be repeated.",
        ),
        option("--figures", type=click.Path(), help="Written by `accel bench --json` on such a machine."),
        option(
            "--config",
            default="sentiment",
            show_default=True,
            help="A configuration file, or the bare name of a packaged one.",
        ),
    ):
        command = decorate(command)
    return command


def fault_options(command: Command) -> Command:
    """What the simulation adds."""
    for decorate in (
        option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the simulation."),
        option(
            "--attempts",
            type=click.IntRange(1, 100),
            default=2,
            show_default=True,
            help="How often a shard is tried whose worker dies.",
        ),
        option(
            "--restart",
            type=Real(0, 1e6),
            default=0,
            show_default=True,
            metavar="SECONDS",
            help="Until a worker that died is replaced.",
        ),
        option(
            "--hours-between-deaths",
            type=_POSITIVE,
            help="Hours that one worker works on average until it dies.  [default: none dies]",
        ),
        option(
            "--slow-factor",
            type=Real(1, 1e6),
            default=2,
            show_default=True,
            help="How many times as long a slow worker takes.",
        ),
        option(
            "--slow-workers", type=_SHARE, default=0, show_default=True, help="The share of slow workers."
        ),
        option(
            "--shard-size",
            "shard_sizes",
            type=Size(),
            multiple=True,
            default=("4G",),
            show_default=True,
            help="Bytes of a shard, as of `accel run`. May be repeated, to compare.",
        ),
    ):
        command = decorate(command)
    return command


@click.command(context_settings=HELP)
@pace_options
@fleet_options
@fault_options
@option("--json", "output", metavar="FILE", help="Write the plan to a file.")
@option("--overwrite", is_flag=True, help="Replace a file that exists.")
def command(output: str | None, overwrite: bool, **asked: Any) -> None:
    """Plan a large text on paper: hours, machines, what is full first, cost, and how long the tail is.

    Rates come from files that `accel bench --json` wrote; what was not measured is said, or given by you.

    \b
    accel plan-scale --figures gpu.json --units 8 --deadline 24 --storage 5G --network 100G
    accel plan-scale --figures gpu.json --against cpu.json --gpu-price 3 --core-price 0.04
    """
    with ExitStack() as stack:
        file = stack.enter_context(opened_output(output, overwrite)) if output is not None else None
        found = plan(Question(**asked))
        if output != "-":
            show(found)
        if file is not None:
            file.write(found.text().encode())
