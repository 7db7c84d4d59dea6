"""`accel bench --suite memory` and the other experiments of the lab: their end."""

from __future__ import annotations

from contextlib import ExitStack

import click
from click.core import ParameterSource

from accel_cli.bench.elapsed import elapsed
from accel_cli.bench.lab import experiments
from accel_cli.bench.lab.report import show
from accel_cli.commands.options import say
from accel_cli.text.writers import opened_output


def said(*names: str) -> dict[str, object]:
    """Of options that always have a value, those that the command line gives one."""
    context = click.get_current_context()
    given = (name for name in names if context.get_parameter_source(name) is ParameterSource.COMMANDLINE)
    return {f"--{name}": context.params[name] for name in given}


def measure_experiment(name: str, device: str, repeats: int, report: str | None, overwrite: bool) -> None:
    """Run an experiment, print its table and write its figures."""
    with ExitStack() as stack:
        file = stack.enter_context(opened_output(report, overwrite)) if report is not None else None
        found = experiments.run(name, device, repeats, elapsed(say))
        if report != "-":
            show(found)
        if file is not None:
            file.write(found.text().encode())
