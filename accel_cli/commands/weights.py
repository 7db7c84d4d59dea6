"""`accel weights`: generate, convert and check weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from accel_cli.commands import HELP
from accel_cli.commands.options import option, say
from accel_cli.model.config import load_config
from accel_cli.model.convert import read_foreign
from accel_cli.model.generate import generate
from accel_cli.model.weights import (
    FORMAT,
    check_recorded,
    digest,
    load_tensors,
    load_weights,
    save_weights,
)
from accel_cli.text.writers import claim

_config = option("--config", default="sentiment", show_default=True, help="The network's shape.")
_output = option("--output", required=True, help="The safetensors file to write.")
_overwrite = option("--overwrite", is_flag=True, help="Replace an existing file.")


@click.group(context_settings=HELP)
def command() -> None:
    """Generate, convert and check weights."""


@command.command(context_settings=HELP)
@_config
@_output
@_overwrite
@option(
    "--seed", type=click.IntRange(0), default=2025, show_default=True, help="Another seed, other weights."
)
def init(config: str, output: str, overwrite: bool, seed: int) -> None:
    """Write seeded random weights: the same bits on every machine."""
    spec = load_config(config).model
    claim(output, overwrite)
    save_weights(Path(output), spec, generate(spec, seed), overwrite=overwrite)
    say(f"wrote {output}, seed {seed}")


@command.command(context_settings=HELP)
@click.argument("source")
@_config
@_output
@_overwrite
@option(
    "--embedding-seed",
    type=click.IntRange(0),
    default=2025,
    show_default=True,
    help="For a params.bin, which has no embedding: generate one from this seed.",
)
def convert(source: str, config: str, output: str, overwrite: bool, embedding_seed: int) -> None:
    """Convert SOURCE: the school's params.bin, a PyTorch state dict (.pt, .pth) or safetensors."""
    spec = load_config(config).model
    claim(output, overwrite)
    save_weights(Path(output), spec, read_foreign(Path(source), spec, embedding_seed), overwrite=overwrite)
    say(f"wrote {output}")


@command.command(context_settings=HELP)
@click.argument("file")
@option("--config", help="Check that the weights fit this configuration as well.")
def check(file: str, config: str | None) -> None:
    """Check a weights file: that it is whole, finite and as recorded and, with --config, that it fits."""
    tensors, metadata = load_tensors(Path(file))
    check_recorded(Path(file), tensors, metadata)
    for name in sorted(tensors):
        click.echo(f"{name:<24}{tensors[name].dtype!s:<10}{list(tensors[name].shape)}")
    click.echo(f"format {FORMAT}, sha256 {digest(tensors)}: as recorded")
    if config:
        loaded = load_config(config)
        load_weights(Path(file), replace(loaded.model, weights=Path(file)))
        click.echo(f"fits {loaded.name}")
