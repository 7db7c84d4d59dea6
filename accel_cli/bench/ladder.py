"""What `accel bench --ladder` does: rung after rung is checked against the goldens, then timed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from accel_cli.batches import TokenBatch
from accel_cli.bench import measure
from accel_cli.bench.ahead import CompileAhead
from accel_cli.bench.ceiling import measure_ceiling
from accel_cli.bench.ladder_clock import Clock, Subject
from accel_cli.bench.ladder_inputs import Inputs, make_inputs
from accel_cli.bench.ladder_peer import peers, require_device
from accel_cli.bench.ladder_report import LadderReport, LadderRow
from accel_cli.bench.peer_precision import peer_precision
from accel_cli.bench.precompile import compile_all
from accel_cli.bench.rungs import PACKAGED, Rung, rungs
from accel_cli.bench.work import layers, total
from accel_cli.cuda.device import cupy, facts, index_of
from accel_cli.cuda.errors import DeviceLost, translated
from accel_cli.engines.base import Engine, Plan
from accel_cli.engines.open import engine_for
from accel_cli.errors import AccelError
from accel_cli.model.config import ModelSpec
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import Golden, load_golden
from accel_cli.model.weights import Weights
from accel_cli.numeric import compare
from accel_cli.validation import TOLERANCE, Case, check_layers, submitted

_COMPILING = 60.0  # seconds before the climb, at most
_TRACED = 8  # golden sentences that are checked layer by layer
_ALONE = 16  # that are checked by their logits on a rung that computes a sentence at a time; else all
_INPUTS = {"embeddings": "embeddings", "ids": "tokens"}  # as validation calls them


@dataclass(frozen=True)
class Job:
    """What to climb: the rungs of `folder`, all or those in `numbers`, with at most `count` sentences."""

    folder: Path = PACKAGED
    numbers: frozenset[int] | None = None
    count: int = 16384
    repeats: int = 10
    device: str = "auto"
    peer: bool = False


def run(
    job: Job, tell: Callable[[str], None], keep: Callable[[LadderReport], None] = lambda report: None
) -> LadderReport:
    """Climb. A rung that fails is named in the report, not timed, and the climb goes on.

    `keep` is given all that is known after each rung. Raises AccelError if nothing can be climbed: no such
    rungs, no device, no goldens.
    """
    found = rungs(job.folder, job.numbers, job.device)
    spec = found[0].config.model
    index = next((index_of(r.plan.device) for r in found if r.plan.device != "cpu"), None)
    if job.peer:
        require_device(index)
    assert spec.golden is not None
    tell("making the weights")
    weights = obtain_weights(spec)
    golden = load_golden(spec.golden, spec, weights)
    tell(f"embedding {job.count} sentences")
    with nullcontext() if index is None else cupy().cuda.Device(index):
        inputs = make_inputs(spec, weights, golden, job.count, locked=index is not None)
    ceiling = None
    if index is not None:
        if any(rung.plan.gemm == "sgemm" for rung in found):
            with CompileAhead(facts(index).architecture) as ahead:
                compile_all(ahead, facts(index), spec.experts, _COMPILING, tell)
        ceiling = measure_ceiling(index)
        tell(f"ceiling: {ceiling}")
    climb = _Climb(spec, weights, golden, inputs, job.repeats)
    report = LadderReport(
        job.folder.name,
        climb.flop,
        inputs.origin,
        len(inputs),
        len(golden.batch),
        ceiling,
        [],
        {},
        None if index is None else facts(index),
        complete=False,
    )
    for rung in found:
        _release(index)
        tell(f"{rung}: {rung.plan}")
        with _noted(report.failed, str(rung), tell, AccelError):
            report.rows.extend(climb.rung(rung))
        keep(report)
    _release(index)
    for precision in _precisions(found) if job.peer else ():
        with _noted(report.failed, f"the peer in {precision}", tell, AccelError, RuntimeError):
            device = f"cuda:{index}"
            for subject in peers(spec, weights, inputs, device, climb.flop, tell, precision):
                name = f"{subject.program}, {subject.name}"
                tell(name)
                report = replace(report, programs=(subject.program,))
                with _noted(report.failed, name, tell, AccelError, RuntimeError):
                    report.rows.extend(climb.timed(subject))
                keep(report)
        _release(index)
    return replace(report, complete=True)


def _precisions(found: list[Rung]) -> list[str]:
    """What PyTorch computes in beside the rungs, each once."""
    return list(dict.fromkeys(peer_precision(rung.plan.precision) for rung in found))


class _Climb:
    """What all rungs share."""

    def __init__(
        self, spec: ModelSpec, weights: Weights, golden: Golden, inputs: Inputs, repeats: int
    ) -> None:
        self._spec, self._weights, self._golden = spec, weights, golden
        self._inputs, self._repeats = inputs, repeats
        self.flop = direct_flop(spec)

    def rung(self, rung: Rung) -> list[LadderRow]:
        """Check a rung, and time it on a fresh engine; AccelError if any result is wrong."""
        error = None
        if rung.plan.device != "cpu":  # whose kernels are compiled here, so that the fresh engine finds them
            with self._engine(rung) as engine:
                error = self._checked(engine, rung.kinds)
                self._clock(_subject(rung, engine, self.flop)).cold(rung.kinds[0])
        with self._engine(rung) as engine:
            subject = _subject(rung, engine, self.flop)
            first = self._clock(subject).cold(rung.kinds[0])
            error = self._checked(engine, rung.kinds) if error is None else error
            return [first, *self.timed(replace(subject, error=error))]

    def timed(self, subject: Subject) -> list[LadderRow]:
        """The rows of a subject that is right."""
        clock = self._clock(subject)
        return [row for kind in subject.kinds for row in clock.warm(kind)]

    def _clock(self, subject: Subject) -> Clock:
        return Clock(self._spec, self._inputs, subject, self._repeats)

    def _checked(self, engine: Engine, kinds: tuple[str, ...]) -> float:
        """The largest error of the goldens' logits; AccelError if a layer of some, or a logit, is wrong."""
        return max(self._checked_from(kind, engine) for kind in kinds)

    def _checked_from(self, kind: str, engine: Engine) -> float:
        golden, case = self._golden, Case(engine.plan, _INPUTS[kind])
        some = min(_TRACED, len(golden.batch))
        expected = {name: values[:some] for name, values in golden.layers.items()}
        for row in check_layers(engine, self._weights, golden.batch.rows(0, some), expected, case):
            if row.failed:
                raise AccelError(
                    f"with {kind} as input {row.layer} differs from the goldens: {row.difference}"
                )
        count = min(_ALONE if engine.plan.batch == 1 else len(golden.batch), len(golden.batch))
        logits = submitted(engine, self._weights, golden.batch.rows(0, count), case).logits
        worst = compare(logits, golden.layers["logits"][:count], TOLERANCE[engine.plan.precision])
        if not worst.passed:
            raise AccelError(f"with {kind} as input the logits differ from the goldens: {worst}")
        return worst.error

    @contextmanager
    def _engine(self, rung: Rung) -> Iterator[Engine]:
        """An engine for whatever input the rung takes, closed at the end."""
        engine = engine_for(self._spec, self._weights, rung.plan, embeddings="embeddings" in rung.kinds)
        try:
            yield engine
        finally:
            engine.close()


def _subject(rung: Rung, engine: Engine, flop: int) -> Subject:
    """A rung, to be timed."""
    return Subject(
        rung.number,
        rung.name,
        "accel",
        engine.plan,
        lambda batches: measure.predict(engine, batches).logits,
        flop,
        kinds=rung.kinds,
        alike=engine.plan.gemm in ("", "naive", "tiled") and engine.plan.launch != "graph",
    )


@contextmanager
def _noted(
    failed: dict[str, str], name: str, tell: Callable[[str], None], *errors: type[Exception]
) -> Iterator[None]:
    """Whatever one does wrong is put down, and the others are not lost; PyTorch's own are RuntimeErrors."""
    try:
        yield
    except errors as error:
        failed[name] = str(error)
        tell(f"{name} is not timed: {error}")


def direct_flop(spec: ModelSpec) -> int:
    """The FLOP of a sentence when nothing is folded, transformed or saved."""
    plan = Plan("cpu", "fp32", "im2col", "separate", 1, 1)
    sentence = TokenBatch.from_rows(np.zeros((1, spec.length or spec.max_tokens), np.int32))
    return total(list(layers(spec, plan, sentence).values())).flop


def _release(index: int | None) -> None:
    """Give back all memory that no engine holds, so that each rung finds the device as empty as the first."""
    gc.collect()
    if index is not None:
        with suppress(DeviceLost), translated("freeing memory"), cupy().cuda.Device(index):
            cupy().get_default_memory_pool().free_all_blocks()
            cupy().get_default_pinned_memory_pool().free_all_blocks()
