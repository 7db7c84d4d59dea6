"""`accel kernels`: compile everything, for every architecture, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click

from accel_cli.commands import HELP
from accel_cli.commands.options import option
from accel_cli.cuda.compiler import (
    ARCHITECTURES,
    Usage,
    check_architecture,
    compile_kernel,
    compiler_version,
    options,
    usage,
)
from accel_cli.cuda.disassembler import INSTALL, disassembler, matrix_instructions
from accel_cli.errors import AccelError
from accel_cli.kernels import mma_gemm, wgmma_gemm
from accel_cli.kernels.base import Launch
from accel_cli.kernels.catalogue import variants

# The matrix instructions of the kernels that have any: these alone, and at least one.
_MULTIPLY = {mma_gemm.KERNEL.name: "HMMA", wgmma_gemm.KERNEL.name: "HGMMA"}


class KernelsSpill(AccelError):
    """A kernel needs more registers than there are."""


class WrongInstructions(AccelError):
    """A kernel does not use the tensor cores as it is meant to."""


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
    """Compile every kernel with NVRTC; print registers, shared memory, spills and matrix instructions.

    Needs CuPy and the NVRTC package (the cuda13 or cuda12 extra), but no GPU. Matrix instructions, those
    of tensor cores, are counted if there is a disassembler, cuobjdump. Exits with 1 if a kernel spills
    registers, does not compile, or does not use the tensor cores as it should.
    """
    for architecture in architectures:
        check_architecture(architecture)
    click.echo(f"NVRTC {compiler_version()}")
    tool = disassembler()
    if tool is None:
        click.echo(f"matrix instructions are not counted: {INSTALL}")
    click.echo(
        f"{'kernel':<20}{'arch':<10}{'registers':>10}{'shared':>8}{'stack':>8}{'spills':>8}"
        f"{'matrix':>12}  constants"
    )
    spilling, wrong = [], []
    for launch, architecture, found, counts in _examined(architectures, tool):
        name = launch.kernel.name
        constants = " ".join(f"{key}={value}" for key, value in launch.defines)
        matrix = " ".join(f"{count} {kind}" for kind, count in counts.items()) or "-"
        click.echo(
            f"{name:<20}{architecture:<10}{found.registers:>10}{found.shared_bytes:>8}"
            f"{found.stack_bytes:>8}{found.spill_bytes:>8}{matrix:>12}  {constants}"
        )
        if found.spill_bytes:
            spilling.append(f"{name} for {architecture}")
        if tool and name in _MULTIPLY and set(counts) != {_MULTIPLY[name]}:
            wrong.append(f"{name} for {architecture} with {matrix}, expected {_MULTIPLY[name]} alone")
    if spilling:
        raise KernelsSpill(f"registers are spilled to memory by {', '.join(spilling)}; use smaller tiles")
    if wrong:
        raise WrongInstructions(f"matrix instructions are not what they should be: {'; '.join(wrong)}")


Examined = tuple[Launch, str, Usage, dict[str, int]]


def _examined(architectures: tuple[str, ...], tool: Path | None) -> Iterator[Examined]:
    """What each variant takes for each architecture, and its matrix instructions if it shall have some."""
    pairs = [(each, launch) for launch in variants() for each in architectures]
    pairs = [(each, launch) for each, launch in pairs if launch.kernel.exists_for(each)]
    with ThreadPoolExecutor(2) as pool:  # one is disassembled while the next one is compiled
        yield from pool.map(partial(_examine, tool), *zip(*pairs, strict=True))


def _examine(tool: Path | None, architecture: str, launch: Launch) -> Examined:
    name = launch.kernel.name
    cubin, log = compile_kernel(name, options(architecture, launch.defines))
    counts = matrix_instructions(tool, cubin) if tool and name in _MULTIPLY else {}
    return launch, architecture, usage(log), counts
