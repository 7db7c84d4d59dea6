"""What `accel bench` can measure, and which of its options each of that heeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click
from click.core import ParameterSource

from accel_cli.bench.lab.experiments import EXPERIMENTS
from accel_cli.errors import UsageError

_NETWORK = frozenset({"config", "device", "precision", "batch", "streams", "kernels", "kernel_debug"})
_SENTENCES = frozenset({"sentences", "tokens", "path"})
_ALWAYS = frozenset({"report", "overwrite"})


@dataclass(frozen=True)
class Mode:
    """One of the things to measure: how it is asked for, why it heeds nothing else, and what it heeds."""

    asked: str
    reason: str
    heeds: frozenset[str]


PLAN = Mode(
    "a plan",
    "one plan is measured",
    _NETWORK | _SENTENCES | {"repeats", "law", "peers", "profile", "stages"},
)
LADDER = Mode(
    "--ladder",
    "the rungs say all else themselves",
    frozenset({"repeats", "folder", "rungs", "pictures", "sentences", "peers", "device"}),
)
SERVE = Mode(
    "--serve", "only a server is measured", _NETWORK | _SENTENCES | {"repeats", "serve", "seconds", "soak"}
)
TEXT = Mode(
    "--suite text",
    "whole files are classified",
    _NETWORK | _SENTENCES | {"repeats", "suite", "peers", "size"},
)
SHARDS = Mode(
    "--suite shards", "whole runs are measured", _NETWORK | _SENTENCES | {"repeats", "suite", "workers"}
)
SCALING = Mode(
    "--suite scaling",
    "whole folders are written",
    _NETWORK | _SENTENCES | {"repeats", "suite", "workers", "size", "shard_size"},
)
LATENCY = Mode(
    "--suite latency",
    "each sentence is asked for once",
    _NETWORK | _SENTENCES | {"suite", "peers"},
)
GEMM = Mode(
    "--suite gemm",
    "nothing but products is measured",
    frozenset({"repeats", "suite", "device", "precision"}),
)
_LAB = {
    name: Mode(
        f"--suite {name}",
        "nothing but that experiment is measured",
        frozenset({"repeats", "suite", "device"}),
    )
    for name in EXPERIMENTS
}
SUITES = {"gemm": GEMM, "latency": LATENCY, "scaling": SCALING, "shards": SHARDS, "text": TEXT, **_LAB}
_MODES = (PLAN, LADDER, SERVE, *SUITES.values())


def mode_of(suite: str | None, serve: bool, folder: str | None) -> Mode:
    """What is asked for; UsageError if the command line gives an option that it would not heed."""
    mode = SERVE if serve else SUITES[suite] if suite else PLAN if folder is None else LADDER
    for name, words in _given():
        if name in mode.heeds | _ALWAYS:
            continue
        if mode is not PLAN:
            raise UsageError(f"{words}: with {mode.asked} {mode.reason}; leave it out")
        others = " or ".join(other.asked for other in _MODES if name in other.heeds)
        raise UsageError(f"{words}: heeded only with {others}; say that too, or leave it out")
    return mode


def only_peer(peers: tuple[str, ...]) -> str | None:
    """The one peer of a network; UsageError if there are several, or one that takes nothing but text."""
    if "fasttext" in peers:
        raise UsageError(
            "--peer fasttext: it is another model, and reads text; say --suite text, or leave it out"
        )
    if len(peers) > 1:
        raise UsageError(f"--peer {' --peer '.join(peers)}: only --suite text has several; say one of them")
    return peers[0] if peers else None


def _given() -> Iterator[tuple[str, str]]:
    """The parameters that the command line gives, and how: with the first of several values."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name
        if name is None or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        first = value[0] if isinstance(value, tuple) else value
        yield name, parameter.opts[0] if value is True else f"{parameter.opts[0]} {first}"
