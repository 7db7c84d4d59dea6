"""From what is asked to a plan: figures are read, what they lack is said or taken from the question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

import numpy as np

from accel_cli.batches import Predictions
from accel_cli.errors import UsageError
from accel_cli.model.config import load_config
from accel_cli.scale.estimate import HOUR, Estimate, Fleet, Node, Pace, fleet, measured, nodes_for, resources
from accel_cli.scale.figures import Figures, load_figures
from accel_cli.scale.report import ScaleReport, Tail
from accel_cli.scale.simulation import Work, simulate
from accel_cli.shards.shard import MOST
from accel_cli.text.chunks import TextChunk
from accel_cli.text.rows import TextFormatter

_LIVES = 3  # of a worker, that a shard may take: of more, one in twenty tries would end well


@dataclass(frozen=True)
class Question:
    """What `accel plan-scale` is asked. Sizes are bytes, `network` bits a second, `storage` bytes a second.

    None is not known, or left to the figures.
    """

    text_bytes: float
    config: str = "sentiment"
    figures: str | None = None
    against: Sequence[str] = ()
    sentences_per_s: float | None = None
    sentence_bytes: float | None = None
    fasttext: float | None = None
    nodes: int | None = None
    deadline: float | None = None  # hours
    units: int | None = None
    cores: int | None = None
    storage: float | None = None
    network: float | None = None
    gpu_price: float | None = None
    core_price: float | None = None
    shard_sizes: Sequence[int] = (4 << 30,)
    slow_workers: float = 0.0
    slow_factor: float = 2.0
    hours_between_deaths: float | None = None
    restart: float = 0.0  # seconds
    attempts: int = 2
    seed: int = 0


def plan(asked: Question) -> ScaleReport:
    """The plan. Raises UsageError where the question lacks something, InputError for bad figures."""
    spec = load_config(asked.config)
    main = None if asked.figures is None else load_figures(asked.figures)
    others = [load_figures(path) for path in asked.against]
    for one in (*others, *([main] if main else [])):
        if one.suite != spec.name:
            raise UsageError(
                f"{one.file} measured {one.suite!r}, not {spec.name!r}; measure that, or say --config"
            )
    pace = _pace(asked, main)
    node = _node(asked, main, pace)
    row_bytes = longest_row(spec.model.labels)
    found = resources(pace, node, row_bytes)
    first = min(resource.text_rate for resource in found)
    nodes = asked.nodes or (nodes_for(asked.text_bytes, first, asked.deadline) if asked.deadline else 1)
    estimate = Estimate(asked.text_bytes, found, nodes)
    return ScaleReport(
        figures=[one for one in (main, *others) if one],
        pace=pace,
        node=node,
        row_bytes=row_bytes,
        deadline=asked.deadline,
        estimate=estimate,
        fleets=list(_fleets(asked, main, others, pace, node, estimate)),
        tails=[_tail(asked, pace, node, estimate, size, sound) for size, sound in _cases(asked)],
        notes=list(_notes(asked, main, node)),
    )


def longest_row(labels: Sequence[str]) -> int:
    """Bytes of the longest row of tsv with label and score."""
    count = len(labels)
    found = Predictions.from_logits(np.eye(count, dtype=np.float32))
    rows = TextFormatter("tsv", ["label", "score"], labels).rows(TextChunk([b""] * count, 1), found)
    return max(len(row) + 1 for row in rows.split(b"\n"))


def _pace(asked: Question, main: Figures | None) -> Pace:
    """What is measured, with the rate that is given in its place."""
    if main is None:
        if asked.sentences_per_s is None or asked.sentence_bytes is None:
            raise UsageError(
                "no figures to plan with; name a file of `accel bench --json` with --figures, or give both"
                " --sentences-per-s and --sentence-bytes"
            )
        return Pace("GPU", "given", asked.sentences_per_s, asked.sentence_bytes)
    pace = measured(main, _sentence_bytes(asked, main))
    if asked.sentences_per_s is None:
        return pace
    given = Pace(pace.unit, "given", asked.sentences_per_s, pace.sentence_bytes)
    return replace(given, load_seconds=pace.load_seconds)


def _sentence_bytes(asked: Question, figures: Figures) -> float:
    size = figures.sentence_bytes or asked.sentence_bytes
    if size is None:
        raise UsageError(
            f"{figures.file} does not say how long its sentences are; give --sentence-bytes, or measure again"
        )
    return size


def _node(asked: Question, main: Figures | None, pace: Pace) -> Node:
    if asked.cores is not None and pace.core_seconds is None:
        raise UsageError(
            f"--cores {asked.cores}: what a sentence costs the host beside a GPU is not known; leave it out,"
            " or plan with the figures of a GPU"
        )
    alike = main.cores if main is not None else 1
    return Node(
        asked.units or (alike if pace.unit == "core" else 1),
        None if pace.core_seconds is None else asked.cores or alike,
        asked.storage,
        None if asked.network is None else asked.network / 8,
    )


def _fleets(
    asked: Question,
    main: Figures | None,
    others: Sequence[Figures],
    pace: Pace,
    node: Node,
    estimate: Estimate,
) -> Iterator[Fleet]:
    """The plan itself, whose units are paid for also while they wait, then what it is compared with."""
    prices = {"GPU": asked.gpu_price, "core": asked.core_price}
    hours, units = estimate.hours, estimate.nodes * node.units
    name = f"accel on {main.machine}" if main else "accel"
    yield Fleet(name, pace, units * hours, units, prices[pace.unit])
    for one in others:
        other = measured(one, _sentence_bytes(asked, one))
        yield fleet(f"accel on {one.machine}", other, asked.text_bytes, hours, prices[other.unit])
    if asked.fasttext is not None:
        other = Pace("core", "given", asked.fasttext, pace.sentence_bytes)
        yield fleet("fastText", other, asked.text_bytes, hours, asked.core_price)


def _cases(asked: Question) -> Iterator[tuple[int, bool]]:
    """Each size of a shard, on sound workers and, if they were asked for, on faulty ones."""
    faulty = asked.slow_workers > 0 or asked.hours_between_deaths is not None
    for size in asked.shard_sizes:
        yield size, True
        if faulty:
            yield size, False


def _tail(asked: Question, pace: Pace, node: Node, estimate: Estimate, size: int, sound: bool) -> Tail:
    """The simulation of one size."""
    workers, shards = estimate.nodes * node.units, ceil(asked.text_bytes / size)
    if shards > MOST:
        raise UsageError(f"shards of {size} bytes are {shards}, more than {MOST}; raise --shard-size")
    if workers > MOST:
        raise UsageError(f"{workers} workers are more than {MOST}; plan fewer --nodes, or a later --deadline")
    work = Work(
        shards,
        workers,
        shard_seconds=asked.text_bytes / shards / (estimate.first.text_rate / node.units),
        load_seconds=pace.load_seconds,
        attempts=asked.attempts,
        seed=asked.seed,
    )
    if not sound:
        deaths = asked.hours_between_deaths
        work = replace(
            work,
            slow_workers=asked.slow_workers,
            slow_factor=asked.slow_factor,
            between_deaths=inf if deaths is None else deaths * HOUR,
            restart_seconds=asked.restart,
        )
        _survivable(work)
    return Tail(size, work, simulate(work))


def _survivable(work: Work) -> None:
    """UsageError where hardly any shard would ever be done."""
    longest = work.shard_seconds * (work.slow_factor if work.slow_workers else 1.0)
    if longest > _LIVES * work.between_deaths:
        raise UsageError(
            f"a shard takes up to {longest / HOUR:.3g} hours, a worker lives"
            f" {work.between_deaths / HOUR:.3g}; lower --shard-size"
        )


def _notes(asked: Question, main: Figures | None, node: Node) -> Iterator[str]:
    """What the plan does not know, and what it takes for granted."""
    if asked.sentences_per_s is not None:
        yield "not measured: from text to rows; the rate was given"
    elif main is not None and not main.on_cpu:
        yield "measured on one GPU alone in its machine: several are taken not to disturb each other"
    elif main is not None:
        yield f"measured on {main.cores} cores: more are taken to be as fast, each"
    if main is not None and main.sentence_bytes is None:
        yield "not in the figures: bytes of a sentence; they were given"
    for name, value in (("storage", node.storage), ("network", node.network)):
        if value is None:
            yield f"not considered: {name}; --{name} gives its rate"
    if asked.fasttext is None:
        yield "not measured: fastText; --fasttext gives its sentences/s on one core"
    if not (asked.gpu_price or asked.core_price):
        yield "no cost: --gpu-price and --core-price give the prices of an hour"
