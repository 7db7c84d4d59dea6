"""What `accel bench` does: a cold start, the check, then every clock in turns with the peers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from accel_cli.batches import Predictions, TokenBatch
from accel_cli.bench import measure
from accel_cli.bench.bounds import Bounds, batch_bounds
from accel_cli.bench.bounds_text import text_bounds
from accel_cli.bench.check import Truth, truth
from accel_cli.bench.inputs import TOKENS, Sentences, obtain_sentences
from accel_cli.bench.limits import Limits, device_limits, host_limits
from accel_cli.bench.peers import PyTorch, peers, require_torch
from accel_cli.bench.profile import profile
from accel_cli.bench.report import Report, Row, Stage
from accel_cli.bench.work import Work, by_stage, layers, total
from accel_cli.classifier import Classifier
from accel_cli.cuda.device import index_of
from accel_cli.errors import AccelError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.pipeline import Pipeline
from accel_cli.stages import StageClock, StartStage
from accel_cli.text.readers import Source
from accel_cli.text.rows import TextFormatter

_COLD = 32  # sentences of the cold row


@dataclass(frozen=True)
class Job:
    """What to measure: `count` sentences, of the file `path` or of `tokens` generated words on average.

    `law` is how those are drawn. `peer` names a program to compare with; `profile` asks for the time of each
    kernel as well, `stages` for what bounds each stage.
    """

    count: int
    repeats: int
    path: str | None = None
    peer: str | None = None
    tokens: int = TOKENS
    profile: bool = False
    stages: bool = False
    law: str = "zipf"


def run(config: Config, device: str, job: Job, tell: Callable[[str], None]) -> Report:
    """Measure a configuration on `device`. Raises AccelError, before any timing if a result is wrong."""
    if job.peer:
        require_torch()
    sentences = obtain_sentences(config.model, job.path, job.count, job.tokens, job.law)
    clock = StageClock()
    with Classifier(config, device, staged=clock) as classifier:
        clock.note("device", classifier.plan.device)
        loaded = clock.with_kernels(getattr(classifier.engine, "loading", None))
        cold, predictions = _cold(classifier, sentences)
        tell(f"{classifier.plan}")
        return _Bench(config, classifier, sentences, job, tell).report(loaded, cold, predictions)


def _cold(classifier: Classifier, sentences: Sentences) -> tuple[measure.Timing, Predictions]:
    """The first sentences that a new process sees, from text to labels: nothing is warm yet."""
    found: list[Predictions] = []

    def first() -> None:
        batch = classifier.tokenizer.encode(sentences.lines[:_COLD]).batch
        found.append(classifier.engine.submit(batch).result())

    wall, cpu = measure.timed(first)
    return measure.Timing((wall,), (cpu,)), found[0]


class _Bench:
    """One plan, one input, everything that is measured with them."""

    def __init__(
        self,
        config: Config,
        classifier: Classifier,
        sentences: Sentences,
        job: Job,
        tell: Callable[[str], None],
    ) -> None:
        self._config, self._classifier, self._sentences = config, classifier, sentences
        self._engine, self._plan, self._job, self._tell = classifier.engine, classifier.plan, job, tell
        self._batches = sentences.batches(classifier.tokenizer, self._plan.batch)
        weights = obtain_weights(config.model)  # its own copy, which no engine has touched
        self._truth: Truth = truth(config.model, weights, self._plan, self._batches[0])
        self._name = f"accel on {self._plan.device}"
        self._error = self._checked(
            measure.predict(self._engine, [self._batches[0].rows(0, len(self._truth))])
        )
        tell(f"checked {len(self._truth)} sentences against float64: largest error {self._error:.1e}")
        self._peers: list[PyTorch] = []
        if job.peer:
            tell(f"preparing {job.peer}")
            self._peers = peers(job.peer, config.model, weights, self._plan, _joined(self._batches), tell)

    def report(self, loaded: list[StartStage], cold: measure.Timing, predictions: Predictions) -> Report:
        """Warm up, check each way's own result, then measure."""
        limits = self._limits() if self._job.stages else None  # first, as much can be missing for it
        plan, spec = self._plan, self._config.model
        works = [layers(spec, plan, batch) for batch in self._batches]
        work = _sum(works)
        first = self._classifier.tokenizer.encode(self._sentences.lines[:_COLD]).batch
        cold_row = replace(
            self._row("host", "text", cold, self._checked(predictions), _sum([layers(spec, plan, first)])),
            n=len(first),
            warm=False,
        )
        stage_times = self._stage_times()
        rows = [cold_row]
        if plan.device != "cpu":
            rows.append(self._row("device", "ids", measure.together(stage_times.values()), self._error, work))
        rows += self._in_turns(work)
        for warning in _noise(rows):
            self._tell(warning)
        return Report(
            suite=self._config.name,
            plan=plan,
            origin=self._sentences.origin,
            sentences=len(self._sentences),
            tokens=sum(len(batch.ids) for batch in self._batches),
            bytes=sum(len(line) + 1 for line in self._sentences.lines),
            checked=len(self._truth),
            load=loaded,
            rows=_against_peers(rows),
            stages=_stages(stage_times, works),
            gpu=getattr(self._engine, "device", None),
            programs=tuple({peer.version for peer in self._peers}),
            profile=profile(self._engine, self._batches, self._tell) if self._job.profile else None,
            bounds=self._bounds(limits) if limits else None,
        )

    def _limits(self) -> Limits:
        device = self._plan.device
        self._tell(f"measuring what {device} can do")
        return host_limits() if device == "cpu" else device_limits(index_of(device))

    def _bounds(self, limits: Limits) -> Bounds:
        """What bounds each stage: of a batch of ids, and of a block of text where that is the device's."""
        self._tell("measuring what bounds each stage")
        parts = [batch_bounds(self._config.model, self._engine, self._batches, limits)]
        tokens = sum(len(batch.ids) for batch in self._batches)
        text = text_bounds(self._classifier, self._sentences.lines, tokens / len(self._sentences), limits)
        return Bounds(limits, [*parts, text] if text else parts)

    def _stage_times(self) -> dict[str, measure.Timing]:
        self._tell(f"timing each stage over {len(self._sentences)} sentences, {self._job.repeats} times")
        return measure.stages(self._engine, self._batches, self._job.repeats)

    def _in_turns(self, work: Work) -> list[Row]:
        """The rows of the host's clocks and of the peer."""

        def ids() -> Predictions:
            return measure.predict(self._engine, self._batches)

        def text() -> Predictions:
            return measure.read(self._classifier, self._sentences.cut(self._plan.batch))

        with self._file() as file:
            errors = {("host", "ids"): self._checked(ids()), ("host", "text"): self._checked(text())}
            errors["file", "text"] = self._error
            file()
            runs: dict[str, Callable[[], object]] = {"host ids": ids, "host text": text, "file text": file}
            peer_errors = [
                self._truth.error(peer.name, peer.logits(), peer.plan.precision) for peer in self._peers
            ]
            # next to their counterpart, so that all meet the same conditions
            runs = {"host ids": ids, **{peer.name: peer.predict for peer in self._peers}, **runs}
            self._tell(f"timing {', '.join(runs)} in turns, {self._job.repeats} times")
            times = measure.in_turns(runs, self._job.repeats)
        rows = [
            self._row(clock, kind, times[f"{clock} {kind}"], error, work)
            for (clock, kind), error in errors.items()
        ]
        for peer, error in zip(self._peers, peer_errors, strict=True):
            rows += self._peer_rows(peer, times[peer.name], error)
        return rows

    def _peer_rows(self, peer: PyTorch, timing: measure.Timing, error: float) -> list[Row]:
        work = _sum([layers(self._config.model, peer.plan, batch) for batch in self._batches])
        row = replace(self._row("host", "ids", timing, error, work), program=peer.name, plan=peer.plan)
        if self._plan.device == "cpu":
            return [row]
        seconds = measure.Timing(tuple(peer.device_seconds() for _ in range(self._job.repeats)))
        return [row, replace(row, clock="device", timing=seconds)]

    def _row(self, clock: str, kind: str, timing: measure.Timing, error: float, work: Work) -> Row:
        return Row("accel", self._plan, clock, kind, len(self._sentences), True, timing, error, work)

    def _checked(self, predictions: Predictions) -> float:
        return self._truth.error(self._name, predictions.logits, self._plan.precision)

    @contextmanager
    def _file(self) -> Iterator[Callable[[], object]]:
        """A file of the sentences, gone at the end, and the way to classify it into nowhere."""
        with tempfile.TemporaryDirectory(prefix="accel-bench-") as folder, open(os.devnull, "wb", 0) as sink:
            path = Path(folder) / "sentences.txt"
            path.write_bytes(b"\n".join(self._sentences.lines) + b"\n")
            formatter = TextFormatter("tsv", ["label", "score"], self._classifier.labels)

            def classify() -> None:
                pipeline = Pipeline(self._classifier, formatter, sink.write)
                summary = pipeline.run([Source(str(path), "text")])
                if summary.sentences != len(self._sentences):
                    raise AccelError(
                        f"not timed, because {len(self._sentences)} lines gave {summary.sentences} rows;"
                        " please report this"
                    )

            yield classify


def _against_peers(rows: list[Row]) -> list[Row]:
    """The rows, with the ratio to the fastest peer where one was measured by the same clock."""
    rates: dict[tuple[str, str], float] = {}
    for row in rows:
        if row.program != "accel":
            place = row.clock, row.input
            rates[place] = max(row.rate, rates.get(place, 0.0))

    def compared(row: Row) -> Row:
        rate = rates.get((row.clock, row.input))
        return row if rate is None else replace(row, x_peer=row.rate / rate)

    return [compared(row) for row in rows]


def _noise(rows: list[Row]) -> Iterator[str]:
    """A warning for each row whose repeats lie so far apart that its figure is none."""
    for row in rows:
        spread = max(row.timing.seconds) / min(row.timing.seconds)
        if spread > measure.QUIET:
            yield (
                f"the repeats of {row.program}, {row.clock} {row.input}, differ by a factor of {spread:.1f}:"
                " something else is running here; measure again on a quiet machine before you publish this"
            )


def _stages(times: dict[str, measure.Timing], works: list[dict[str, Work]]) -> list[Stage]:
    whole = sum(timing.median for timing in times.values())
    parts = [by_stage(work, list(times)) for work in works]
    return [
        Stage(name, timing, timing.median / whole, total([part[name] for part in parts]))
        for name, timing in times.items()
    ]


def _sum(works: list[dict[str, Work]]) -> Work:
    return total([part for work in works for part in work.values()])


def _joined(batches: list[TokenBatch]) -> TokenBatch:
    """Consecutive batches as one."""
    lengths = np.concatenate([batch.lengths for batch in batches])
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return TokenBatch(np.concatenate([batch.ids for batch in batches]), offsets)
