"""Timing one rung, or a peer, on the ladder's inputs: how many sentences, how often, and right each time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from accel_cli.batches import Batch, Floats
from accel_cli.bench.ladder_inputs import KINDS, Inputs
from accel_cli.bench.ladder_report import LadderRow
from accel_cli.bench.measure import Timing, timed
from accel_cli.bench.report import Row
from accel_cli.bench.traffic import bytes_each
from accel_cli.bench.work import Work
from accel_cli.engines.base import Plan
from accel_cli.model.config import ModelSpec
from accel_cli.validation import TOLERANCE

ONE_BATCH = 512  # sentences
COLD = 32  # sentences of the first call
_FEW = 4  # sentences of the first try
_PILOT = 0.05  # seconds from which on a rate can be told
_REPEAT = 0.5  # seconds that a repeat of a slow rung takes at most, about
_PATIENCE = 2.0  # seconds that a repeat of all sentences may take
_BUDGET = {"many": 2.5, "one batch": 1.0}  # seconds after which there are no more repeats of a kind of input
_FEWEST = 3  # repeats, whatever they take


@dataclass(frozen=True)
class Subject:
    """Who is timed: a rung's engine or, with `rung` None, a peer. `run` gives the logits of batches in order.

    `flop` is a sentence's work in the direct network; `error` the largest one found so far. With `alike` it
    does the same for any number of sentences, so that a few warm it up for more; else a whole batch does.
    """

    rung: int | None
    name: str
    program: str
    plan: Plan
    run: Callable[[list[Batch]], Floats]
    flop: int
    error: float = 0.0
    kinds: tuple[str, ...] = KINDS
    alike: bool = False

    @property
    def tolerance(self) -> float:
        """The largest error of a logit: of PyTorch, which rounds what each layer gives, twice a rung's."""
        return TOLERANCE[self.plan.precision] * (2 if self.rung is None else 1)


class Clock:
    """Makes the rows of one subject."""

    def __init__(self, spec: ModelSpec, inputs: Inputs, subject: Subject, repeats: int) -> None:
        self._spec, self._inputs, self._subject, self._repeats = spec, inputs, subject, repeats
        self._warm: tuple[object, ...] = ()  # the kind and sizes of the batches that it is warm for

    def cold(self, kind: str) -> LadderRow:
        """The first call there is, once."""
        count = min(COLD, len(self._inputs))
        timing, error = self._once(kind, 0, count)
        return self._row(kind, "cold", count, [timing], error)

    def warm(self, kind: str) -> list[LadderRow]:
        """Many sentences, and 512 of them where those are fewer."""
        many = self._fitting(kind)
        rows = [self._timed(kind, "many", many)]
        if many > ONE_BATCH:
            rows.append(self._timed(kind, "one batch", ONE_BATCH))
        return rows

    def _timed(self, kind: str, regime: str, count: int) -> LadderRow:
        """Windows of `count` sentences in turn, after a warm-up; the longer they take, the fewer."""
        starts, worst = self._inputs.starts(count), self._warm_up(kind, count)
        timings: list[tuple[float, float]] = []
        spent = 0.0
        while len(timings) < self._repeats and (len(timings) < _FEWEST or spent < _BUDGET[regime]):
            timing, error = self._once(kind, starts[len(timings) % len(starts)], count)
            timings.append(timing)
            spent += timing[0]
            worst = max(worst, error)
        return self._row(kind, regime, count, timings, worst)

    def _warm_up(self, kind: str, count: int) -> float:
        """Run until every shape has its tile and every slot its graph, unless they have; the largest error.

        A slot captures its graph with the second batch of a kind, and replays it from the third one on.
        """
        plan = self._subject.plan
        shape = (kind,) if self._subject.alike else (kind, min(count, plan.batch), count % plan.batch)
        if shape == self._warm:
            return 0.0
        self._warm = shape
        batches = 2 * plan.streams + 1 if plan.launch == "graph" else 1
        enough = min(count, batches * plan.batch)
        starts, calls = self._inputs.starts(enough), math.ceil(batches / math.ceil(enough / plan.batch))
        return max(self._once(kind, starts[i % len(starts)], enough)[1] for i in range(calls))

    def _once(self, kind: str, start: int, count: int) -> tuple[tuple[float, float], float]:
        """Seconds (wall, cpu) of one run, and the error of what it computed; AccelError if that is wrong."""
        plan, found = self._subject.plan, []
        batches = self._inputs.batches(kind, start, count, plan.batch, copied=plan.copies == "pageable")
        times = timed(lambda: found.append(self._subject.run(batches)))
        return times, self._inputs.error(start, found[0], self._subject.tolerance)

    def _fitting(self, kind: str) -> int:
        """How many sentences: all, or a power of two that takes well under a second, but a whole batch."""
        most, plan = len(self._inputs), self._subject.plan
        least = count = min(_FEW if self._subject.alike else plan.batch, most)
        while True:
            self._warm_up(kind, count)
            seconds = self._once(kind, 0, count)[0][0]
            if count == most or seconds >= _PILOT:
                break
            count = min(8 * count, most)
        rate = count / seconds
        if most <= rate * _PATIENCE:
            return most
        return max(least, min(plan.batch, most), 1 << int(math.log2(max(1.0, rate * _REPEAT))))

    def _row(
        self, kind: str, regime: str, count: int, timings: list[tuple[float, float]], error: float
    ) -> LadderRow:
        subject = self._subject
        moved = bytes_each(self._spec, subject.plan, kind, min(count, subject.plan.batch))
        figure = Row(
            subject.program,
            subject.plan,
            "host",
            kind,
            count,
            regime != "cold",
            Timing(tuple(wall for wall, _ in timings), tuple(cpu for _, cpu in timings)),
            max(error, subject.error),
            Work(subject.flop * count, int(moved * count)),
        )
        return LadderRow(subject.rung, subject.name, regime, figure)
