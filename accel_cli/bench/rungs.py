"""The rungs of a ladder: a folder of configurations NN-name.yaml, which differ in nothing but their plan."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from accel_cli import resources
from accel_cli.bench.ladder_inputs import KINDS
from accel_cli.cuda.device import choose, choose_gpu
from accel_cli.engines.base import Plan
from accel_cli.engines.open import capability_of
from accel_cli.engines.planner import make_plan
from accel_cli.errors import DeviceError, UsageError
from accel_cli.model.config import Config, load_config

PACKAGED = resources.CONFIGS / "ladder"
_FILE = re.compile(r"([0-9]{1,4})-(.+)\.yaml")
_SPAN = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


@dataclass(frozen=True)
class Rung:
    """A plan with its place on the ladder."""

    number: int
    name: str
    config: Config
    plan: Plan

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it takes: a table of what words add serves no embeddings."""
        return ("ids",) if self.plan.convolution == "folded" else KINDS

    def __str__(self) -> str:
        return f"rung {self.number} ({self.name})"


def numbers(text: str) -> frozenset[int]:
    """`4,6-10` as the numbers 4, 6, 7, 8, 9, 10; UsageError if it is something else."""
    found: set[int] = set()
    for part in text.split(","):
        span = _SPAN.fullmatch(part.strip())
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if last < first:
            raise UsageError(f"--rungs {text}: {part!r} is no number and no range; write 4 or 6-10")
        found.update(range(first, last + 1))
    return frozenset(found)


def rungs(folder: Path, chosen: frozenset[int] | None, device: str) -> list[Rung]:
    """The rungs of a folder in order, all or the chosen ones, on the GPU that `device` names if it names one.

    UsageError unless they share a model of one sentence length that has golden outputs.
    """
    if device == "cpu":
        raise UsageError("--device cpu: a rung says where it runs; choose those on the CPU with --rungs 0")
    files = {
        int(m[1]): (m[2], path) for path in sorted(folder.glob("*")) if (m := _FILE.fullmatch(path.name))
    }
    if not files:
        raise UsageError(f"--ladder {folder}: no rungs there; they are files like 00-cpu.yaml, 01-gpu.yaml")
    unknown = sorted((chosen or frozenset()) - set(files))
    if unknown:
        there = ", ".join(map(str, sorted(files)))
        raise UsageError(f"--rungs: {folder} has no rung {unknown[0]}; there are {there}")
    found = [
        _rung(number, *files[number], device)
        for number in sorted(files)
        if chosen is None or number in chosen
    ]
    _check(found)
    return found


def _rung(number: int, name: str, path: Path, device: str) -> Rung:
    config = load_config(path)
    own = config.plan.device
    wanted = own if device == "auto" or own == "cpu" else device
    try:
        place = choose(wanted) if wanted in ("auto", "cpu") else choose_gpu(wanted, "it")
        capability = capability_of(place)
        plan = make_plan(
            config.model,
            config.plan,
            place,
            embeddings=config.plan.convolution != "folded",
            capability=capability,
        )
    except DeviceError as error:
        raise DeviceError(f"rung {number} ({name}): {error}, or leave it out with --rungs") from error
    return Rung(number, name, config, plan)


def _check(found: Iterable[Rung]) -> None:
    first, *rest = found
    model = first.config.model
    for rung in rest:
        if rung.config.model != model:
            raise UsageError(
                f"{rung.config.path}: another model than that of {first}; all rungs must extend the same one"
            )
    if model.length is None:
        raise UsageError(
            f"{first.config.path}: sentences of any length, but a ladder takes embeddings in rectangles too;"
            " set model.length"
        )
    if model.golden is None:
        raise UsageError(
            f"{first.config.path}: no model.golden, and no rung is timed unchecked; make one with"
            " `accel validate --make-golden`"
        )
