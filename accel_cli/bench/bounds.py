"""Where a batch's time goes, and what bounds each stage: its needs, held against what was measured here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from typing import Any

from accel_cli.batches import TokenBatch
from accel_cli.bench.demand import Need, device_needs, host_needs, mean
from accel_cli.bench.limits import LAUNCHES, Limits
from accel_cli.bench.measure import predict, short
from accel_cli.cuda.stopwatch import Span
from accel_cli.engines.base import Engine
from accel_cli.model.config import ModelSpec

_MOST = 32  # batches whose stages are timed
_BUDGET = 3.0  # seconds after which no further batch is taken, nor a further repeat
_REPEATS = 5
_BEYOND = 1.1  # of a limit: who had more than that had it from somewhere nearer
_EACH = 2  # batches of a run for each stream, at least
_RUN, _MOST_RUN = 0.1, 1000  # seconds that a run shall take, and the most batches of one
_PAUSE = 0.002  # seconds that a device is left to finish a batch, and twice as long as its stages take

# Seconds and launches of each stage of a batch, in order.
Taken = dict[str, tuple[float, int]]


@dataclass(frozen=True)
class Bound:
    """The resource that a stage comes nearest to the most of, and how near, of 1."""

    resource: str
    share: float


@dataclass(frozen=True)
class StageBounds:
    """A stage of a batch: its seconds and launches, what it needs, what share of each limit it reaches."""

    name: str
    seconds: float
    launches: int
    need: Need
    shares: dict[str, float]

    @staticmethod
    def of(name: str, seconds: float, launches: int, need: Need, limits: Limits) -> StageBounds:
        """With its launches among the needs."""
        demand = {**need.demand, **({LAUNCHES: float(launches)} if launches else {})}
        shares = {
            resource: amount / limits.rates[resource] / seconds
            for resource, amount in demand.items()
            if seconds and limits.rates.get(resource)
        }
        return StageBounds(name, seconds, launches, Need(need.flop, demand), shares)

    @property
    def bound(self) -> Bound | None:
        """The nearest limit; not the caches if more was had than they give, as then nearer ones gave it."""
        able = {name: share for name, share in self.shares.items() if share <= _BEYOND} or self.shares
        return max((Bound(*item) for item in able.items()), key=lambda bound: bound.share, default=None)

    def as_json(self, whole: float) -> dict[str, Any]:
        """As it is published; `whole` are the seconds of all stages."""
        bound = self.bound
        return {
            "stage": self.name,
            "us": short(1e6 * self.seconds),
            "percent": short(100 * self.seconds / whole) if whole else 0.0,
            "launches": self.launches,
            "flop": short(self.need.flop),
            "needs": {name: short(amount) for name, amount in self.need.demand.items()},
            "percent_of_limits": {name: short(100 * share) for name, share in self.shares.items()},
            "bound": None if bound is None else bound.resource,
            "percent_of_bound": None if bound is None else short(100 * bound.share),
        }


@dataclass(frozen=True)
class Part:
    """The stages of a `unit` of `sentences`, a batch or a block of text, one after the other.

    `wall` are its seconds with `streams` of them under way; `host` those that it keeps a thread of the host
    busy, of which there are `threads`, None on a CPU, where all is the host's.
    """

    unit: str
    sentences: int
    stages: list[StageBounds]
    wall: float
    streams: int
    host: float | None = None
    threads: int = 1

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def overlap(self) -> float:
        """How many stages run at once on average."""
        return self.seconds / self.wall if self.wall else 0.0

    @property
    def host_share(self) -> float | None:
        """How much of the wall's time the host's threads are busy; None if that is not known."""
        return None if self.host is None or not self.wall else self.host / self.wall / self.threads

    def as_json(self) -> dict[str, Any]:
        """As it is published."""
        busy = self.host_share
        return {
            "unit": self.unit,
            "sentences": self.sentences,
            "stages_us": short(1e6 * self.seconds),
            "wall_us": short(1e6 * self.wall),
            "streams": self.streams,
            "stages_at_once": short(self.overlap),
            "host_us": None if self.host is None else short(1e6 * self.host),
            "host_percent": None if busy is None else short(100 * busy),
            "stages": [stage.as_json(self.seconds) for stage in self.stages],
        }


@dataclass(frozen=True)
class Bounds:
    """What the device can do, and how far each stage of a batch, and of a block of text, goes to it."""

    limits: Limits
    parts: list[Part]

    def as_json(self) -> dict[str, Any]:
        """As it is published."""
        return {"limits": self.limits.as_json(), "parts": [part.as_json() for part in self.parts]}


def batch_bounds(spec: ModelSpec, engine: Engine, batches: Sequence[TokenBatch], limits: Limits) -> Part:
    """The stages of a batch of token ids: medians over whole batches, after a warm-up on one of them."""
    plan, size = engine.plan, len(batches[0])
    whole = [batch for batch in batches if len(batch) == size][:_MOST]
    stages_of(engine, whole[0])
    taken, end = [], time.perf_counter() + _BUDGET
    for batch in whole:
        taken.append(stages_of(engine, batch))
        if time.perf_counter() > end:
            break
    measured = whole[: len(taken)]
    if plan.device == "cpu":
        needs = [host_needs(spec, plan, batch, list(taken[0])) for batch in measured]
    else:
        needs = [device_needs(spec, plan, batch) for batch in measured]
    each = {name: mean([need[name] for need in needs]) for name in needs[0]}
    stages = middle(taken, each, limits)
    if plan.device == "cpu":
        return Part("batch", size, stages, _wall(engine, measured, len(measured)), plan.streams)
    on_device = sum(stage.seconds for stage in stages)
    count = max(_EACH * plan.streams, min(_MOST_RUN, int(_RUN / max(on_device, 1e-6))))
    wall, host = _wall(engine, measured, count), _host(engine, whole[0], on_device)
    return Part("batch", size, stages, wall, plan.streams, host)


def middle(taken: Sequence[Taken], needs: dict[str, Need], limits: Limits) -> list[StageBounds]:
    """Each stage by the median of several takings, with what it needs."""
    return [
        StageBounds.of(
            name, median(each[name][0] for each in taken), launches, needs.get(name, Need()), limits
        )
        for name, (_, launches) in taken[0].items()
    ]


def stages_of(engine: Engine, batch: TokenBatch) -> Taken:
    """The stages of one batch: of an engine with kernels by these and copies, else by its own clock."""
    spans = engine.kernel_times(batch)
    if not spans:
        return {name: (seconds, 0) for name, seconds in engine.stage_times(batch)}
    return by_name(spans, lambda span: _stage(span.layer) if span.layer else span.name)


def by_name(spans: Sequence[Span], name: Callable[[Span], str]) -> Taken:
    """Spans of one name together, in the order in which names come first; only kernels have launches."""
    found: Taken = {}
    for span in spans:
        seconds, launches = found.get(name(span), (0.0, 0))
        found[name(span)] = seconds + span.seconds, launches + bool(span.constants)
    return found


def _stage(layer: str) -> str:
    """All up to the features is one stage: kernels of one width may run after the checkpoint of another."""
    return "features" if layer == "embedding" or layer.startswith("convolution.") else layer


def _wall(engine: Engine, batches: Sequence[TokenBatch], count: int) -> float:
    """Seconds of each of `count` batches, as many under way as the plan has streams."""

    def run() -> float:
        begin = time.perf_counter()
        predict(engine, islice(cycle(batches), count))
        return (time.perf_counter() - begin) / count

    return _middle(run)


def _host(engine: Engine, batch: TokenBatch, on_device: float) -> float:
    """Seconds that a batch keeps the host busy: to enqueue it, and to fetch what the device has done."""

    def run() -> float:
        begin = time.perf_counter()
        ticket = engine.submit(batch)
        enqueued = time.perf_counter() - begin
        time.sleep(_PAUSE + 2 * on_device)  # until the device has done it
        begin = time.perf_counter()
        ticket.result()
        return enqueued + time.perf_counter() - begin

    return _middle(run)


def _middle(run: Callable[[], float]) -> float:
    """The median of what a few runs give, or of as many as there is time for."""
    end = time.perf_counter() + _BUDGET
    seconds = [run()]
    while len(seconds) < _REPEATS and time.perf_counter() < end:
        seconds.append(run())
    return median(seconds)
