"""`accel compile`: the kernels of a plan ahead of time, for machines without a compiler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from accel_cli.bench.ahead import CompileAhead
from accel_cli.bench.elapsed import elapsed
from accel_cli.commands import HELP
from accel_cli.commands.options import config_option, configured, option, say
from accel_cli.cuda.cache import Defines, Entry, KernelCache
from accel_cli.cuda.compiler import ARCHITECTURES, check_architecture, compiler_version
from accel_cli.cuda.manifest import ARCHITECTURE, MANIFEST, manifest_text
from accel_cli.engines.base import Plan
from accel_cli.engines.needed import needed_launches
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.errors import DeviceError, UsageError
from accel_cli.kernels.base import Launch
from accel_cli.model.config import CHOICES, Config
from accel_cli.train.folder import check_free, write_folder

Made = tuple[str, str, Defines, Entry]
_DEVICE = "cuda:0"  # which of a machine's GPUs changes no kernel


@click.command(context_settings=HELP)
@option(
    "--arch",
    "architectures",
    default=",".join(ARCHITECTURES),
    show_default=True,
    metavar="LIST",
    help="Architectures, as NVRTC names them. sm_80 serves all devices of capability 8.x, sm_90a the H100 and"
    " H200, sm_100 those of 10.x.",
)
@option("--output", required=True, metavar="DIR", help="The folder to make.")
@option("--overwrite", is_flag=True, help="Replace such a folder that exists.")
@config_option
@option("--precision", type=click.Choice(("auto", *CHOICES["precision"])), help="Arithmetic of the network.")
@option("--all-plans", is_flag=True, help="For every way to compute the network, not only the planned one.")
@option("--embeddings", is_flag=True, help="For embeddings as input as well.")
def command(
    architectures: str,
    output: str,
    overwrite: bool,
    config: str,
    precision: str | None,
    all_plans: bool,
    embeddings: bool,
) -> None:
    """Compile what a plan launches, for batches of any size, into a folder for --kernels.

    \b
    accel compile --output kernels/
    accel run --kernels kernels/ --input reviews.txt

    Needs CuPy and the NVRTC package (the cuda13 or cuda12 extra), but no GPU; who loads the folder needs
    no NVRTC. docs/ahead.md says what is in it, and when a kernel is refused.
    """
    loaded, folder, tell = configured(config, precision=precision), Path(output), elapsed(say)
    if all_plans and precision is not None:
        raise UsageError(f"--precision {precision}: --all-plans has every precision; leave one of them out")
    if loaded.plan.device == "cpu":
        raise UsageError(f"{loaded.path} is a plan for a CPU, which launches no kernels; name another one")
    check_free(folder, overwrite, MANIFEST, "folder of kernels")
    wanted = {
        each: _launches(loaded, each, embeddings=embeddings, every=all_plans)
        for each in dict.fromkeys(architectures.split(","))
    }
    write_folder(folder, lambda new: _fill(new, wanted, tell))
    for architecture, launches in wanted.items():
        size = sum(file.stat().st_size for file in folder.glob(f"*-{architecture}-*.cubin"))
        click.echo(f"{architecture}: {len(launches)} kernels, {size / 2**20:.1f} MiB")
    click.echo(f"wrote {folder}")


def _capability(architecture: str) -> tuple[int, int]:
    """The compute capability that an architecture is of; UsageError if there is no such one."""
    check_architecture(architecture)
    found = ARCHITECTURE.fullmatch(architecture)
    assert found is not None, architecture
    return int(found[1]) // 10, int(found[1]) % 10


def _launches(config: Config, architecture: str, *, embeddings: bool, every: bool) -> list[Launch]:
    """One launch for each variant of a kernel that is needed, those first that take longest to compile."""
    capability = _capability(architecture)
    found: dict[tuple[str, Defines], Launch] = {}
    for plan, embedded in _plans(config, capability, embeddings=embeddings, every=every):
        for launch in needed_launches(config.model, plan, capability, embeddings=embedded):
            if not launch.kernel.exists_for(architecture):
                raise UsageError(
                    f"--arch {architecture}: the plan of its devices launches {launch.kernel.name}, which"
                    f" exists for {', '.join(launch.kernel.architectures)} alone; say that instead"
                )
            found.setdefault((launch.kernel.name, launch.defines), launch)
    return sorted(found.values(), key=lambda launch: -launch.shared_bytes)  # products have most


def _plans(
    config: Config, capability: tuple[int, int], *, embeddings: bool, every: bool
) -> Iterator[tuple[Plan, bool]]:
    """The plans to compile for, and whether each is to take embeddings."""
    spec, wanted = config.model, config.plan
    if every:
        for plan in available_plans(spec, wanted, _DEVICE, capability=capability):
            yield plan, embeddings and plan.convolution != "folded"
        return
    yield make_plan(spec, wanted, _DEVICE, capability=capability), False
    if embeddings:
        yield make_plan(spec, wanted, _DEVICE, capability=capability, embeddings=True), True


def _compiled(architecture: str, wanted: Iterable[Launch]) -> list[Made]:
    """The entries in the cache of compiled kernels, in the order of their names; DeviceError if one fails."""
    cache, made = KernelCache(architecture), []
    with CompileAhead(architecture) as ahead:
        for launch, fault in ahead.compiled(wanted, math.inf):
            if fault:
                raise DeviceError(f"compiling {launch.kernel.name} for {architecture} failed: {fault}")
            name, defines = launch.kernel.name, launch.defines
            made.append((name, architecture, defines, cache.entry(name, defines)))
    return sorted(made)


def _fill(folder: Path, wanted: dict[str, list[Launch]], tell: Callable[[str], None]) -> None:
    """Compile, and write cubins and manifest."""
    made: list[Made] = []
    for architecture, launches in wanted.items():
        tell(f"compiling {len(launches)} kernels for {architecture}")
        made += _compiled(architecture, launches)
    for *_, entry in made:
        (folder / entry.path.name).write_bytes(entry.path.read_bytes())
    headers = KernelCache(ARCHITECTURES[0]).headers
    (folder / MANIFEST).write_text(manifest_text(compiler_version(), headers, made), "utf-8")
