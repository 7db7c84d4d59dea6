"""`accel info --startup`: where the time of a cold start goes, in a process that has done nothing before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from contextlib import ExitStack
from typing import Any

import click

from accel_cli.commands import complain, show_warning
from accel_cli.errors import AccelError
from accel_cli.stages import StageClock, StartStage, seconds

_TEXT = b"What a lovely film."
_LOADING = ("vocabulary", "device", "weights", "layers", "memory", "kernels")
_CLOCK = (
    "the wall clock of one new process, from the call that makes it to the label of one sentence; how much of"
    " the files was in the page cache is not known"
)
# Nothing of accel is imported before the clock is read, nor from the current folder, where `-c` looks first.
_PROGRAM = """\
import os, sys, time
now = time.monotonic()
sys.path[:] = {path}
try:
    from accel_cli.commands.startup import main
    main(now)
except KeyboardInterrupt:
    os._exit(130)
"""


class StartupFailed(AccelError):
    """The process that was measured came to no label."""


def show_startup(
    config: str, device: str, plan: dict[str, Any], report: str | None = None, overwrite: bool = False
) -> None:
    """Measure a start, print its stages, and write them to the file `report` if there is one.

    `plan` is laid over the configuration's.
    """
    from accel_cli.text.writers import opened_output

    with ExitStack() as stack:
        file = stack.enter_context(opened_output(report, overwrite)) if report is not None else None
        found = fresh_start(config, device, plan)
        if report != "-":
            _show(found)
        if file is not None:
            file.write((json.dumps(found, indent=1, allow_nan=False) + "\n").encode())


def _show(found: dict[str, Any]) -> None:
    click.echo(f"{'stage':<15}{'seconds':>8}{'share':>7}")
    for row in found["rows"]:
        share = f"{row['percent']:.0f}%"
        click.echo(f"{row['stage']:<15}{row['seconds']:>8.3f}{share:>7}  {row['note']}".rstrip())
    click.echo(f"{'first label':<15}{found['first_label_seconds']:>8.3f}{'100%':>7}")
    click.echo(f"{'second batch':<15}{found['second_batch_seconds']:>8.3f}")
    click.echo(f"{'loading':<15}{found['load_seconds']:>8.3f}")
    click.echo(f"{'but for weights':<15}{found['load_seconds_without_weights']:>8.3f}")


def fresh_start(config: str, device: str, plan: dict[str, Any]) -> dict[str, Any]:
    """What a start in a process of its own found, from the call that makes it; StartupFailed if it fails."""
    asked = {"begin": time.monotonic(), "config": config, "device": device, "plan": plan}
    words = [sys.executable, "-c", _PROGRAM.format(path=sys.path), json.dumps(asked)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode > 0:
        raise SystemExit(done.returncode)  # it has said why
    if done.returncode:
        raise StartupFailed(
            f"signal {-done.returncode} killed the process that was measured; if it was 9, memory may have"
            " been full: use a smaller --batch, or run again"
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def start(begin: float, now: float, config: str, device: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Start as `accel run` does, up to the second batch: the report.

    The process was made at `begin` and came to life `now`, on one clock.
    """
    clock = StageClock(now)

    import accel_cli.commands.run  # noqa: F401 - all that this command imports
    from accel_cli.classifier import Classifier
    from accel_cli.commands.options import configured

    clock("imports")
    loaded = configured(config, **plan)
    clock("configuration")
    with Classifier(loaded, device, staged=clock) as classifier:
        engine, loading = classifier.engine, getattr(classifier.engine, "loading", None)
        clock.note("device", classifier.plan.device)
        batch = classifier.tokenizer.encode([_TEXT]).batch
        engine.submit(batch).result()
        clock("first batch", loading.seconds if loading else 0.0)
        stages = [StartStage("Python", now - begin), *clock.with_kernels(loading)]
        warm = StageClock()
        engine.submit(batch).result()
        warm("second batch")
    return _report(loaded.name, classifier, stages, warm.stages[0].seconds)


def _report(name: str, classifier: Any, stages: list[StartStage], second: float) -> dict[str, Any]:
    """The start as it is published."""
    from accel_cli.provenance import provenance

    loading = getattr(classifier.engine, "loading", None)
    loads = [stage for stage in stages if stage.name in _LOADING]
    return {
        "suite": "startup",
        "config": name,
        "device": classifier.plan.device,
        **provenance(getattr(classifier.engine, "device", None)),
        "plan": str(classifier.plan),
        "ready_kernels": loading is not None and 0 < loading.kernels == loading.ready,
        "kernels_loaded": loading.kernels if loading else 0,
        "kernels_compiled": loading.compiled if loading else 0,
        "clock": _CLOCK,
        "first_label_seconds": round(seconds(stages), 6),
        "load_seconds": round(seconds(loads), 6),
        "load_seconds_without_weights": round(seconds(loads, "weights"), 6),
        "second_batch_seconds": round(second, 6),
        "rows": [stage.as_json(seconds(stages)) for stage in stages],
    }


def main(now: float) -> None:
    """In the fresh process: print the report of the start that the argument asks for."""
    warnings.showwarning = show_warning
    try:
        found = start(now=now, **json.loads(sys.argv[1]))
    except (AccelError, OSError, MemoryError) as error:
        if os.environ.get("ACCEL_DEBUG") == "1":
            raise
        sys.exit(complain(error))
    click.echo(json.dumps(found))
