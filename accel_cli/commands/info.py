"""`accel info`: what is here, what is missing, and which plan would be used."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import click

from accel_cli import __version__, resources
from accel_cli.commands import HELP
from accel_cli.commands.options import configured, model_options, option, plan_options
from accel_cli.commands.startup import show_startup
from accel_cli.cuda.device import facts, missing
from accel_cli.engines.open import plan_for
from accel_cli.errors import DeviceError, UsageError

_PACKAGES = ("numpy", "safetensors", "cupy-cuda13x", "cupy-cuda12x")


@click.command(context_settings=HELP)
@option("--plan", "only_plan", is_flag=True, help="Print the plan alone, one key a line.")
@option(
    "--startup", is_flag=True, help="Print where the time until the first label goes, in a fresh process."
)
@option("--json", "report", metavar="FILE", help="With --startup: write all figures to a file.")
@option("--overwrite", is_flag=True, help="Replace a file of figures that exists.")
@model_options
@plan_options
def command(
    only_plan: bool,
    startup: bool,
    report: str | None,
    overwrite: bool,
    config: str,
    device: str,
    **plan: Any,
) -> None:
    """Show versions, devices and the plan that would be used, and why."""
    if startup and only_plan:
        raise UsageError("--startup and --plan print different things; leave one of them out")
    if report is not None and not startup:
        raise UsageError(f"--json {report}: only a start has figures; say --startup too, or leave it out")
    if startup:
        show_startup(config, device, plan, report, overwrite)
        return
    loaded = configured(config, **plan)
    chosen = plan_for(loaded, device)
    if only_plan:
        for key, value in chosen.keys().items():
            click.echo(f"{key}: {value}")
        return
    click.echo(f"accel          {__version__}")
    click.echo(f"python         {platform.python_version()} on {platform.platform()}")
    for name in _PACKAGES:
        click.echo(f"{name:<15}{_version(name)}")
    _show_device(int(chosen.device.partition(":")[2] or 0))
    click.echo(f"cache          {resources.cache_folder()}")
    click.echo(f"configuration  {loaded.name} ({loaded.path})")
    asked = (device, loaded.plan.device) != ("auto", "auto")
    click.echo("plan")
    for key, value in chosen.keys().items():
        reason = chosen.reasons.get(key, "asked for" if asked else "the best device there is")
        click.echo(f"  {key:<13}{value!s:<14}{reason}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _show_device(index: int) -> None:
    if reason := missing():
        click.echo(f"GPU            none: {reason}")
        return
    from accel_cli.cuda.compiler import compiler_version

    try:
        found = facts(index)
    except DeviceError as error:
        click.echo(f"GPU            none: {error}")
        return
    click.echo(
        f"GPU            {found.name}, {found.processors} multiprocessors, {found.memory / 2**30:.0f} GiB"
    )
    click.echo(f"capability     {found.capability[0]}.{found.capability[1]} ({found.architecture})")
    click.echo(f"driver         CUDA {_cuda(found.driver)}; runtime {_cuda(found.runtime)}")
    try:
        click.echo(f"compiler       NVRTC {compiler_version()}")
    except DeviceError as error:
        click.echo(f"compiler       none: {error}")


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
