"""Measuring: ways to do the same job take turns, so that a drifting clock rate is nobody's advantage."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from accel_cli.batches import Batch, Predictions, TokenBatch
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Engine, Ticket

QUIET = 1.5  # slowest by fastest repeat, beyond which something else was running


@dataclass(frozen=True)
class Timing:
    """The seconds of each repeat: `seconds` on the clock, `cpu` summed over all threads of this process.

    `cpu` is empty where the clock is the device's.
    """

    seconds: tuple[float, ...]
    cpu: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """Seconds of the middle repeat."""
        return median(self.seconds)


def short(value: float) -> float:
    """Six significant digits of a figure: more would be noise."""
    return float(f"{value:.6g}")


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall clock and of CPU time that one call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def in_turns(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Time each of `runs` `repeats` times: A, B, ..., A, B, ... They must be warm already."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            found[name].append(timed(run))
    return {
        name: Timing(tuple(wall for wall, _ in times), tuple(cpu for _, cpu in times))
        for name, times in found.items()
    }


def usual(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the middle one of so many calls, after one that warms up."""
    run()
    return in_turns({"": run}, repeats)[""].median


def stages(engine: Engine, batches: Sequence[TokenBatch], repeats: int) -> dict[str, Timing]:
    """The seconds of each stage of an engine over all batches, in order, after a warm-up on one batch."""
    engine.stage_times(batches[0])
    found: dict[str, list[float]] = {}
    for repeat in range(repeats):
        for batch in batches:
            for name, seconds in engine.stage_times(batch):
                times = found.setdefault(name, [0.0] * repeats)
                times[repeat] += seconds
    return {name: Timing(tuple(times)) for name, times in found.items()}


def together(timings: Iterable[Timing]) -> Timing:
    """The sum, repeat by repeat."""
    return Timing(tuple(map(sum, zip(*(timing.seconds for timing in timings), strict=True))))


def predict(engine: Engine, batches: Iterable[Batch]) -> Predictions:
    """Classify batches as the pipeline does: while some are under way, the next ones are made."""
    return finished(map(engine.submit, batches), engine.plan.streams)


def read(classifier: Classifier, cut: Iterable[list[bytes]]) -> Predictions:
    """Classify lines in batches likewise; the words are found wherever the plan finds them."""
    tickets = (classifier.submit(classifier.read(lines)) for lines in cut)
    return finished(tickets, classifier.plan.streams)


def finished(started: Iterable[Ticket], most: int) -> Predictions:
    """What batches give that are started one after the other, `most` at once and one more."""
    parts: list[Predictions] = []
    under_way: deque[Ticket] = deque()
    for ticket in started:
        under_way.append(ticket)
        while len(under_way) > most:
            parts.append(under_way.popleft().result())
    parts += [ticket.result() for ticket in under_way]
    return Predictions.concatenate(parts)
