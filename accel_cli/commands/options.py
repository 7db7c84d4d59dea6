"""Options that several commands share. Each has an environment variable."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from accel_cli.cuda.compiler import DEBUG
from accel_cli.cuda.device import known, names_several
from accel_cli.errors import UsageError
from accel_cli.model.config import CHOICES, MOST, Config, load_config
from accel_cli.text.labelled import LAYOUTS

Command = TypeVar("Command", bound=Callable[..., Any])


class Device(click.ParamType):  # type: ignore[type-arg]
    """auto, cpu, cuda or cuda:N."""

    name = "auto|cpu|cuda|cuda:N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, if it is one of these."""
        try:
            return known(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def option(name: str, *names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option whose environment variable is ACCEL_ and its name."""
    variable = "ACCEL_" + name.removeprefix("--").replace("-", "_").upper()
    return click.option(name, *names, envvar=variable, show_envvar=True, **settings)


class Devices(Device):
    """The same, or several GPUs: cuda:N,M or cuda:all."""

    name = "auto|cpu|cuda|cuda:N|cuda:N,M|cuda:all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, if it is one of these."""
        return str(value) if names_several(value) else super().convert(value, param, ctx)


class Real(click.FloatRange):
    """A finite number within a range, which NaN is not, though it is neither below nor above."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no finite number", param, ctx)
        return number


class Size(click.ParamType):  # type: ignore[type-arg]
    """Bytes, as a number or with K, M, G or T for powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes, 1 or more."""
        found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)", str(value).upper())
        size = int(found[1]) << 10 * "_KMGT".index(found[2] or "_") if found else 0
        if not size:
            self.fail(f"{value!r} is no size; say bytes, or a number with K, M, G or T as 64M", param, ctx)
        return size


def model_options(command: Command) -> Command:
    """--config and --device."""
    return _model_options(command, Device())


def model_and_devices(command: Command) -> Command:
    """--config and --device, which may name several GPUs."""
    return _model_options(command, Devices())


def _model_options(command: Command, device: click.ParamType) -> Command:  # type: ignore[type-arg]
    choose = option(
        "--device",
        type=device,
        default="auto",
        show_default=True,
        help="Where to run. `auto` takes the first GPU, else the CPU, and says which.",
    )
    return config_option(choose(command))


def config_option(command: Command) -> Command:
    """--config."""
    return option(
        "--config",
        default="sentiment",
        show_default=True,
        help="A configuration file, or the bare name of a packaged one.",
    )(command)


def plan_options(command: Command) -> Command:
    """--precision, --batch and --streams, which override the configuration's plan, and --kernels."""
    for decorate in (
        option(
            "--kernels",
            metavar="DIR",
            help="Load CUDA kernels that `accel compile` made from this folder; no compiler is needed.",
        ),
        option(
            "--streams",
            type=click.IntRange(1, MOST["streams"]),
            help="Batches under way at once; on a CPU, worker threads.",
        ),
        option("--batch", type=click.IntRange(1, MOST["batch"]), help="Sentences computed at once."),
        option(
            "--precision",
            type=click.Choice(("auto", *CHOICES["precision"])),
            help="Arithmetic of the network.",
        ),
    ):
        command = decorate(command)
    return command


def debug_option(command: Command) -> Command:
    """--kernel-debug, which goes into the plan."""
    return option(
        "--kernel-debug",
        type=click.Choice([level for level in DEBUG if level]),
        help="Compile CUDA kernels for profilers (line: with line information, as fast as without) or for"
        " cuda-gdb (full: not optimised, slow).",
    )(command)


def labelled_options(command: Command) -> Command:
    """--input, --input-format, --column and --label-column, for labelled texts."""
    for decorate in (
        option("--label-column", help="The column or key of the labels.  [default: label]"),
        option("--column", help="The column or key of the texts.  [default: text]"),
        option(
            "--input-format",
            type=click.Choice(LAYOUTS),
            help="plain: label<TAB>text lines, no header.  [default: by name, else by the first line]",
        ),
        option(
            "--input",
            "inputs",
            type=click.Path(),
            multiple=True,
            help="A file, or - for stdin. May be repeated.",
        ),
    ):
        command = decorate(command)
    return command


def configured(config: str, **plan: Any) -> Config:
    """The configuration, with the plan's keys that are not None laid over it."""
    loaded = load_config(config)
    return replace(loaded, plan=loaded.plan.overridden(**plan))


def say(message: str) -> None:
    """One line on stderr, if it can be written there: the work goes on without."""
    with contextlib.suppress(OSError):
        click.echo(f"accel: {message}", err=True)
