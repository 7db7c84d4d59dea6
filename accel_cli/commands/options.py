"""Options that several commands share. Each has an environment variable."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from accel_cli.model.config import PRECISIONS, Config, load_config

Command = TypeVar("Command", bound=Callable[..., Any])


class Device(click.ParamType):  # type: ignore[type-arg]
    """auto, cpu, cuda or cuda:N."""

    name = "auto|cpu|cuda|cuda:N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, if it is one of these."""
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", str(value)):
            self.fail(f"{value!r} is not one of auto, cpu, cuda, cuda:N", param, ctx)
        return str(value)


def model_options(command: Command) -> Command:
    """--config and --device."""
    for option in (
        click.option(
            "--device",
            type=Device(),
            default="auto",
            envvar="ACCEL_DEVICE",
            show_envvar=True,
            help="Where to run. `auto` takes the first GPU, else the CPU, and says which.",
        ),
        click.option(
            "--config",
            default="sentiment",
            envvar="ACCEL_CONFIG",
            show_envvar=True,
            show_default=True,
            help="A configuration file, or the bare name of a packaged one.",
        ),
    ):
        command = option(command)
    return command


def plan_options(command: Command) -> Command:
    """--precision, --batch and --streams, which override the configuration's plan."""
    for option in (
        click.option(
            "--streams",
            type=click.IntRange(1, 64),
            envvar="ACCEL_STREAMS",
            show_envvar=True,
            help="Batches under way at once; on a CPU, worker threads.",
        ),
        click.option(
            "--batch",
            type=click.IntRange(1, 1 << 20),
            envvar="ACCEL_BATCH",
            show_envvar=True,
            help="Sentences computed at once.",
        ),
        click.option(
            "--precision",
            type=click.Choice(PRECISIONS),
            envvar="ACCEL_PRECISION",
            show_envvar=True,
            help="Arithmetic of the network.",
        ),
    ):
        command = option(command)
    return command


def configured(config: str, **plan: Any) -> Config:
    """The configuration, with the plan's keys that are not None laid over it."""
    loaded = load_config(config)
    asked = {key: value for key, value in plan.items() if value is not None}
    return replace(loaded, plan=replace(loaded.plan, **asked))


def say(message: str) -> None:
    """One line on stderr."""
    click.echo(f"accel: {message}", err=True)
