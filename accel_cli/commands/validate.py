"""`accel validate`: every engine and plan against golden outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accel_cli import resources
from accel_cli.commands import HELP
from accel_cli.commands.options import configured, debug_option, model_options, option, plan_options, say
from accel_cli.cuda.device import missing
from accel_cli.engines.open import device_for, plan_for
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import PlanSpec
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import load_golden, make_golden
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary
from accel_cli.text.writers import claim
from accel_cli.validation import Row, cases, check_case, check_tokens

SENTENCES = resources.WEIGHTS / "sentences.txt"


class ValidationFailed(AccelError):
    """Some layer of some plan is out of tolerance."""


@click.command(context_settings=HELP)
@option("--golden", help="Golden outputs to compare with.  [default: the configuration's]")
@option("--make-golden", "target", help="Write golden outputs to this file instead.")
@option("--texts", help="With --make-golden: a text file.  [default: the shipped sentences]")
@option("--overwrite", is_flag=True, help="With --make-golden: replace a file that exists.")
@model_options
@plan_options
@debug_option
def command(
    golden: str | None,
    target: str | None,
    texts: str | None,
    overwrite: bool,
    config: str,
    device: str,
    **plan: Any,
) -> None:
    """Check every engine and plan available here against golden outputs, layer by layer.

    An error is the smaller one of the absolute and the relative; NaN fails. A layer that a plan fuses
    into the next one has no values to compare. Where --device or the configuration names a device it is
    checked alone. Exits with 1 if any layer fails.
    """
    loaded = configured(config, **plan)
    if target is not None:
        claim(target, overwrite)
    weights = obtain_weights(loaded.model)
    tokenizer = Tokenizer(
        load_vocabulary(loaded.model.vocabulary, loaded.model.vocabulary_size),
        loaded.model.min_tokens,
        loaded.model.max_tokens,
    )
    if target is not None:
        lines = _lines(SENTENCES if texts is None else Path(texts))
        batch = tokenizer.encode(lines).batch
        make_golden(Path(target), loaded.model, weights, lines, batch, overwrite=overwrite)
        say(f"wrote golden outputs of {len(lines)} sentences to {target}")
        return
    path = Path(golden) if golden is not None else loaded.model.golden
    if path is None:
        raise UsageError(
            f"{loaded.path} names no golden outputs; give them with --golden, or make them first"
        )
    plan_for(loaded, device)  # what is asked for is refused as `accel run` refuses it
    kept = load_golden(path, loaded.model, weights)
    failures = _show("tokenizer", check_tokens(tokenizer, kept))
    for case in cases(loaded, _devices(loaded.plan, device)):
        failures += _show(str(case), list(check_case(loaded, weights, kept, case)))
    if failures:
        raise ValidationFailed(f"{failures} checks failed against {path}")
    say("all checks passed")


def _lines(sentences: Path) -> list[bytes]:
    """The sentences in a text file."""
    try:
        return sentences.read_bytes().removesuffix(b"\n").split(b"\n")
    except OSError as error:
        raise UsageError(f"cannot read the sentences {sentences}: {error.strerror}") from error


def _devices(wanted: PlanSpec, device: str) -> list[str]:
    """The devices to check: one that is asked for, by name or by the plan, else all kinds there are."""
    if device != "auto" or wanted.device != "auto":
        return [device_for(wanted, device)]
    reason = missing()
    if reason:
        say(f"checking the CPU alone: {reason}")
    return ["cpu"] if reason else ["cpu", "cuda:0"]


def _show(title: str, rows: list[Row]) -> int:
    """Print one row a layer; the number of failures."""
    click.echo(f"\n{title}")
    click.echo(f"  {'layer':<16}{'largest error':>14}  {'at':<14}{'tolerance':>10}  result")
    for row in rows:
        worst = row.difference
        if worst is None:
            click.echo(f"  {row.layer:<16}{'':>14}  {'':<14}{'':>10}  fused")
            continue
        at = ",".join(map(str, worst.index))
        result = "FAIL: " + str(worst) if row.failed else "pass"
        click.echo(f"  {row.layer:<16}{worst.error:>14.2e}  {at:<14}{worst.tolerance:>10.0e}  {result}")
    return sum(row.failed for row in rows)
