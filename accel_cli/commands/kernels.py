"""`accel kernels`: compile everything, for every architecture, without a GPU."""

from __future__ import annotations

import click

from accel_cli.commands import HELP
from accel_cli.commands.options import option
from accel_cli.cuda.compiler import ARCHITECTURES, compile_kernel, compiler_version, options, usage
from accel_cli.errors import AccelError
from accel_cli.kernels.catalogue import variants


class KernelsSpill(AccelError):
    """A kernel needs more registers than there are."""


@click.command(context_settings=HELP)
@option(
    "--arch",
    "architectures",
    multiple=True,
    default=ARCHITECTURES,
    show_default=True,
    help="An architecture, as NVRTC names it. May be repeated.",
)
def command(architectures: tuple[str, ...]) -> None:
    """Compile every kernel with NVRTC and print registers, shared memory and spills.

    Needs CuPy and the NVRTC package (the cuda13 or cuda12 extra), but no GPU. Exits with 1 if a kernel
    spills registers or does not compile.
    """
    click.echo(f"NVRTC {compiler_version()}")
    click.echo(
        f"{'kernel':<20}{'arch':<10}{'registers':>10}{'shared':>8}{'stack':>8}{'spills':>8}  constants"
    )
    spilling = []
    for launch in variants():
        name = launch.kernel.name
        constants = " ".join(f"{key}={value}" for key, value in launch.defines)
        for architecture in architectures:
            _, log = compile_kernel(name, options(architecture, launch.defines))
            found = usage(log)
            click.echo(
                f"{name:<20}{architecture:<10}{found.registers:>10}{found.shared_bytes:>8}"
                f"{found.stack_bytes:>8}{found.spill_bytes:>8}  {constants}"
            )
            if found.spill_bytes:
                spilling.append(f"{name} for {architecture}")
    if spilling:
        raise KernelsSpill(f"registers are spilled to memory by {', '.join(spilling)}; use smaller tiles")
