"""What `accel tune` does: the batch and streams that suit a network on a device, then its products' tiles."""

from __future__ import annotations

import faulthandler
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np

from accel_cli.batches import Batch, TokenBatch
from accel_cli.bench import measure
from accel_cli.bench.ahead import CompileAhead
from accel_cli.bench.check import Truth, truth
from accel_cli.bench.inputs import generated
from accel_cli.bench.precompile import compile_all
from accel_cli.bench.tile_search import Compiler, TileSearch
from accel_cli.cuda.device import DeviceFacts, cupy, facts, index_of
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.base import Plan
from accel_cli.engines.cuda_layers import Layers
from accel_cli.engines.cuda_slots import Room, Slot
from accel_cli.engines.open import capability_of, engine_for, free_on
from accel_cli.engines.planner import make_plan
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.tuned import Sizes, Tuned, Winner, network
from accel_cli.errors import UsageError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.weights import Weights
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary

Tell = Callable[[str], None]

BATCHES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
STREAMS = (1, 2, 3, 4)
SENTENCES = 16384  # or more, where a batch is large
_FEWEST = 2  # batches of a size: one alone would overlap with none
_REPEATS = 3
_FIRST = 0.3  # of the time goes into batch and streams
_GRACE = 120.0  # seconds past the end, after which something hangs


def tune(
    config: Config,
    device: str,
    seconds: float,
    tell: Tell,
    keep: Callable[[Tuned], None] = lambda found: None,
    compiler: Callable[[str], CompileAhead] = CompileAhead,
) -> Tuned:
    """What is fastest for a configuration on `device` ("cuda:N"), found in about so many seconds.

    The batch and the streams are searched where the configuration leaves them open, tiles for products by
    sgemm. `keep` is given each finding at once. UsageError where there is nothing to search; AccelError if
    a result is wrong before anything is timed.
    """
    capability, free = capability_of(device), free_on(device)
    plan = make_plan(config.model, config.plan, device, capability=capability, free=free)
    tiled, sized = plan.gemm == "sgemm", bool(config.plan.batch and config.plan.streams)
    if sized and not tiled:
        raise UsageError(
            f"{config.path}: batch and streams are given, and the plan's gemm is {plan.gemm}, which has no"
            " tiles to choose; leave one of them out, or say `gemm: sgemm`"
        )
    job = _Job(config, plan, tell)
    name, end = job.device.name, time.monotonic() + seconds
    with _ended_after(seconds + _GRACE), compiler(job.device.architecture) as ahead:
        if tiled and not sized:  # each batch would compile tiles of its own
            compile_all(ahead, job.device, config.model.experts, _FIRST * seconds, tell)
        sizes, plan = job.sizes(time.monotonic() + _FIRST * seconds)
        best = Tuned(name, (), (sizes,) if sizes else ())
        if sizes:
            keep(best)
        if not tiled:
            return best
        search = job.tiles(plan, ahead, end, lambda winner: keep(Tuned(name, (winner,))))
    return best.joined(Tuned(name, tuple(found.winner for found in search.found.values())))


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End this process, saying where it was, if what is in here takes so long.

    This needs no lock of the interpreter's: a driver that does not come back may be called with it held.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class _Job:
    """A network, its weights and sentences for it."""

    def __init__(self, config: Config, plan: Plan, tell: Tell) -> None:
        spec = config.model
        vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
        self._spec, self._wanted, self._plan, self._tell = spec, config.plan, plan, tell
        sentences = generated(spec, vocabulary, max(SENTENCES, 2 * _FEWEST * plan.batch))
        tokenizer = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens)
        self._sentences: TokenBatch = tokenizer.encode(sentences.lines).batch
        self._weights: Weights = obtain_weights(spec)
        self.device: DeviceFacts = facts(index_of(plan.device))
        self._truth: Truth = truth(spec, self._weights, plan, self._sentences)

    def sizes(self, end: float) -> tuple[Sizes | None, Plan]:
        """The best batch, then the best number of streams, and the plan with both; None if both are given."""
        plan, wanted = self._plan, self._wanted
        if wanted.batch and wanted.streams:
            return None, plan
        rates: dict[Plan, float] = {}
        batches = [size for size in BATCHES if _FEWEST * size <= len(self._sentences)]
        for key, choices in (("batch", batches), ("streams", STREAMS)):
            if getattr(wanted, key):
                continue
            for size in dict.fromkeys((getattr(plan, key), *choices)):  # the present one first
                other = replace(plan, **{key: size})
                if other not in rates and (not rates or time.monotonic() < end):
                    rates[other] = self._rate(other)
            plan = max(rates, key=rates.__getitem__)
        best = Sizes(network(self._spec), plan.convolution, plan.batch, plan.streams, rates[plan])
        self._tell(f"batch {best.batch}, streams {best.streams}: {best.sentences_per_s:,.0f} sentences/s")
        return best, plan

    def tiles(self, plan: Plan, compiler: Compiler, end: float, keep: Callable[[Winner], None]) -> TileSearch:
        """Meet every product of one batch, then search tiles for each, all on one stream and in turn.

        The batch comes as ids, and where sentences are of one length as embeddings too.
        """
        quiet = replace(plan, streams=1, allocation="once", order="in_turn", launch="stream")
        both = self._spec.length is not None and plan.convolution != "folded"
        with cupy().cuda.Device(self.device.index), translated("tuning"):
            search = TileSearch(Launcher(self.device), self.device, compiler, self._tell, keep)
            layers = Layers(self._spec, self._weights, quiet, Tiles(self.device), search, embeddings=both)
            cupy().cuda.get_current_stream().synchronize()
            room = Room.of(self._spec, plan.batch, embeddings=both)
            slot = Slot(self._spec, layers, quiet, room)
            tokens = self._batches(plan.batch)[0]
            tokens = tokens.rows(0, int(np.searchsorted(tokens.offsets, room.tokens, side="right")) - 1)
            batches: list[Batch] = [tokens]
            if both:
                batches.append(tokens.embedded(self._weights.embedding))
            self._check(slot, batches, "the plan with the tiles in use")
            self._tell(f"{len(search.products)} products of {len(tokens)} sentences")
            search.begin(max(0.0, end - time.monotonic()))
            self._check(slot, batches, "the plan with other tiles")
        if missed := len(search.products) - len(search.found):
            self._tell(
                f"no time was left for {missed} of {len(search.products)} products; give more --seconds"
            )
        return search

    def _check(self, slot: Slot, batches: Iterable[Batch], what: str) -> None:
        """Classify batches that begin with the checked sentences; AccelError if their logits are wrong."""
        for batch in batches:
            logits = slot.start(batch).fetch().logits[: len(self._truth)]
            self._truth.error(what, logits, self._plan.precision)

    def _rate(self, plan: Plan) -> float:
        """Sentences a second of a plan, checked before; 0 if the device has no room for it."""
        batches = self._batches(plan.batch)
        with closing(engine_for(self._spec, self._weights, plan)) as engine:
            if engine.plan.batch != plan.batch:
                return 0.0
            first = measure.predict(engine, [self._sentences.rows(0, len(self._truth))])
            self._truth.error(str(plan), first.logits, plan.precision)

            def predict() -> None:
                measure.predict(engine, batches)

            predict()
            timing = measure.in_turns({"": predict}, _REPEATS)[""]
        rate = len(self._sentences) / timing.median
        self._tell(f"batch {plan.batch}, streams {plan.streams}: {rate:,.0f} sentences/s")
        return rate

    def _batches(self, size: int) -> list[TokenBatch]:
        ends = [*range(0, len(self._sentences), size), len(self._sentences)]
        return [self._sentences.rows(*span) for span in itertools.pairwise(ends)]
