"""`accel info --startup`: where the time of a cold start goes, in a process that has done nothing before."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from accel_cli.errors import AccelError

_TEXT = b"What a lovely film."
# Nothing of accel is imported before the clock is read, nor from the current folder, where `-c` looks first.
_PROGRAM = (
    "import sys, time; now = time.monotonic(); sys.path[:] = {path};"
    " from accel_cli.commands.startup import main; main(now)"
)


@dataclass(frozen=True)
class Stage:
    """A part of the start, the seconds it took, and what happened in it, if that varies."""

    name: str
    seconds: float
    note: str = ""


class StartupFailed(AccelError):
    """The process that was measured came to no label."""


def show_startup(config: str, device: str, plan: dict[str, Any]) -> None:
    """Print the stages of a start; `plan` is laid over the configuration's."""
    *stages, second = fresh_start(config, device, plan)
    total = sum(stage.seconds for stage in stages)
    click.echo(f"{'stage':<15}{'seconds':>8}{'share':>7}")
    for stage in stages:
        share = f"{stage.seconds / total:.0%}"
        click.echo(f"{stage.name:<15}{stage.seconds:>8.3f}{share:>7}  {stage.note}".rstrip())
    click.echo(f"{'first label':<15}{total:>8.3f}{'100%':>7}")
    click.echo(f"{second.name:<15}{second.seconds:>8.3f}")


def fresh_start(config: str, device: str, plan: dict[str, Any]) -> list[Stage]:
    """The stages of a start in a process of its own, from the call that makes it; StartupFailed if it fails.

    The last one is the second batch, after the first label.
    """
    asked = {"begin": time.monotonic(), "config": config, "device": device, "plan": plan}
    words = [sys.executable, "-c", _PROGRAM.format(path=sys.path), json.dumps(asked)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode > 0:
        raise SystemExit(done.returncode)  # it has said why
    if done.returncode:
        raise StartupFailed(f"signal {-done.returncode} killed the process that was measured; run again")
    return [Stage(**values) for values in json.loads(done.stdout)]


def stages(begin: float, now: float, config: str, device: str, plan: dict[str, Any]) -> list[Stage]:
    """Start as `accel run` does; the process was made at `begin` and came to life `now`, on one clock."""
    clock = _Clock(now)

    import accel_cli.commands.run  # noqa: F401 - all that this command imports
    from accel_cli.commands.options import configured
    from accel_cli.engines.open import engine_for, plan_for
    from accel_cli.model.generate import obtain_weights
    from accel_cli.text.tokenizer import Tokenizer
    from accel_cli.text.vocabulary import load_vocabulary

    clock.stage("imports")
    loaded = configured(config, **plan)
    spec = loaded.model
    clock.stage("configuration")
    vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
    tokenizer = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens)
    clock.stage("vocabulary")
    chosen = plan_for(loaded, device)
    clock.stage("device", chosen.device)
    weights = obtain_weights(spec)
    clock.stage("weights")
    engine = engine_for(spec, weights, chosen)
    clock.loading = getattr(engine, "loading", None)
    clock.stage("engine")
    batch = tokenizer.encode([_TEXT]).batch
    engine.submit(batch).result()
    clock.stage("first batch")
    kernels = clock.kernels()
    engine.submit(batch).result()
    clock.stage("second batch")
    engine.close()
    *before, second = clock.stages
    return [Stage("Python", now - begin), *before, *kernels, second]


class _Clock:
    """Takes the time from one stage to the next, without what kernels took in between."""

    def __init__(self, begin: float) -> None:
        self.stages: list[Stage] = []
        self.loading: Any = None  # an engine's on CUDA
        self._last, self._loaded = begin, 0.0

    def stage(self, name: str, note: str = "") -> None:
        """The end of a stage."""
        now, loaded = time.monotonic(), self.loading.seconds if self.loading else 0.0
        self.stages.append(Stage(name, now - self._last - (loaded - self._loaded), note))
        self._last, self._loaded = now, loaded

    def kernels(self) -> list[Stage]:
        """The stage of those loaded so far, where there are any."""
        if self.loading is None:
            return []
        note = f"{self.loading.kernels} loaded, {self.loading.compiled} of them compiled"
        return [Stage("kernels", self.loading.seconds, note)]


def main(now: float) -> None:
    """In the fresh process: print the stages of the start that the argument asks for."""
    try:
        found = stages(now=now, **json.loads(sys.argv[1]))
    except AccelError as error:
        sys.exit(f"Error: {error}")
    click.echo(json.dumps([vars(stage) for stage in found]))
