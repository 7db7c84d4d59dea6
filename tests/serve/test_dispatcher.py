"""From the queue to the engine and back, with an engine that only takes down what it is asked."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.batches import TextBatch, TextPredictions
from accel_cli.engines.base import Plan
from accel_cli.serve import dispatcher
from accel_cli.serve.dispatcher import Dispatcher
from accel_cli.serve.engine_messages import Computed, Failed, Ready
from accel_cli.serve.jobs import Job
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.refusals import Refusal

OnLoop = Callable[[Coroutine[Any, Any, None]], None]


class Asked:
    """The batches that an engine was given, and a dispatcher in front of it."""

    def __init__(self, *, batch: int = 100, depth: int = 1, delay: float = 0.0, ready: bool = True) -> None:
        self.batches: list[list[bytes]] = []
        self.metrics = Metrics("tiny")
        self.dispatcher = Dispatcher(self._compute, 10_000, delay, self.metrics)
        if ready:
            self.dispatcher.open(Ready(Plan("cuda:0", "fp32", "direct", "separate", batch, depth), depth))

    def _compute(self, texts: TextBatch, most_tokens: int) -> None:
        assert most_tokens == 10_000
        assert len(texts.lines()) == len(texts)
        self.batches.append(texts.lines())

    def put(self, *texts: bytes) -> Job:
        future = asyncio.get_running_loop().create_future()
        job = Job(TextBatch.of(texts), future, dispatcher.time.perf_counter())
        self.dispatcher.put([job])
        return job

    def answer(self, batch: int, begin: float = 0.0) -> None:
        """A batch is computed: the logit of a text is the number that it is."""
        logits = np.array([[float(text)] for text in self.batches[batch]], np.float32)
        count = np.ones(len(logits), np.int32)
        found = TextPredictions(logits, logits, count, 2 * count, logits[:, 0] > 90, logits[:, 0] > 1e9)
        self.dispatcher.computed(Computed(found, begin, 0.25, 0.5))

    def fail(self, *, full: bool = False) -> None:
        self.dispatcher.failed(Failed("NaN", full))


def on_loop(body: Callable[[], None]) -> None:
    async def run() -> None:
        body()

    asyncio.run(run())


class Leaps(selectors.DefaultSelector):
    """Waits no time at all, and counts what it should have waited."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(timeout and 0.0)


class LeapingLoop(asyncio.SelectorEventLoop):
    """Its time passes only while everybody waits, however slow the machine is."""

    def __init__(self) -> None:
        self._leaps = Leaps()
        super().__init__(self._leaps)

    def time(self) -> float:
        return self._leaps.now


@pytest.fixture
def on_leaping_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[OnLoop]:
    """Run something whose times are those of such a loop."""
    loop = LeapingLoop()
    monkeypatch.setattr(dispatcher, "time", SimpleNamespace(perf_counter=loop.time))
    yield loop.run_until_complete
    loop.close()


def values(job: Job) -> list[float]:
    return [float(row[0]) for row in job.future.result().predictions.logits]


def test_two_batches_are_with_the_engine_and_what_waits_is_the_next() -> None:
    def body() -> None:
        engine = Asked()
        jobs = [engine.put(b"1"), engine.put(b"2"), engine.put(b"3", b"99"), engine.put(b"5")]
        assert engine.batches == [[b"1"], [b"2"]]
        assert len(engine.dispatcher) == 4  # all but the first
        engine.answer(0)
        assert engine.batches[2:] == [[b"3", b"99", b"5"]]
        engine.answer(1)
        engine.answer(2)
        assert [values(job) for job in jobs] == [[1], [2], [3, 99], [5]]
        found = jobs[2].future.result()
        assert (found.truncated, found.tokens) == (1, 4)
        assert (found.times.tokenization, found.times.inference) == (0.25, 0.5)
        assert len(engine.dispatcher) == 0

    on_loop(body)


def test_nothing_is_sent_before_the_engine_is_ready() -> None:
    def body() -> None:
        engine = Asked(ready=False)
        engine.put(b"1")
        assert engine.batches == []

    on_loop(body)


def test_the_time_in_the_queue_ends_when_the_engine_begins() -> None:
    def body() -> None:
        engine = Asked(batch=2)
        first, cut = engine.put(b"1"), engine.put(b"2", b"3", b"4")
        engine.answer(0, first.created + 5)
        engine.answer(1, cut.created + 7)
        engine.answer(2, cut.created + 9)
        assert first.future.result().times.queue == pytest.approx(5)
        assert cut.future.result().times.queue == pytest.approx(7)  # until its first text was computed

    on_loop(body)


@pytest.mark.parametrize("depth", [1, 3])
def test_a_failed_batch_is_tried_job_by_job(depth: int) -> None:
    """Alone with the engine: when memory was short, two at once might not find it either."""

    def body() -> None:
        engine = Asked(batch=3, depth=depth)
        for _ in range(depth + 1):
            engine.put(b"0")
        gone, guilty, large = engine.put(b"1"), engine.put(b"2"), engine.put(b"3", b"4", b"5")
        for number in range(depth + 1):
            engine.answer(number)
        mixed = engine.batches[depth + 1 :]
        assert mixed == [[b"1", b"2", b"3"], [b"4", b"5"]]
        gone.future.cancel()
        engine.put(b"6")
        engine.fail(full=True)
        sent = len(engine.batches)
        engine.answer(depth + 2)
        if depth > 1:  # it had been sent before
            engine.answer(depth + 3)
        assert engine.batches[sent:] == [[b"2"]]  # nobody waits for 1 any more
        assert engine.dispatcher.busy
        engine.fail()
        assert engine.batches[sent + 1 :] == [[b"3"]]
        engine.answer(sent + 1)
        assert values(large) == [3, 4, 5]  # in order, though its end came first
        refusal = guilty.future.exception()
        assert isinstance(refusal, Refusal)
        assert (refusal.status, refusal.message) == (500, "the engine failed on this request")
        assert b"accel_oom_retries_total 1.0" in engine.metrics.page()

    on_loop(body)


def test_a_job_that_failed_in_part_is_not_computed_on() -> None:
    def body() -> None:
        engine = Asked(batch=1)
        job = engine.put(b"1", b"2", b"3", b"4")
        assert engine.batches == [[b"1"], [b"2"]]
        engine.fail()
        engine.answer(1)
        assert len(engine.batches) == 2
        assert isinstance(job.future.exception(), Refusal)

    on_loop(body)


def test_when_the_engine_is_gone_nobody_is_left_waiting() -> None:
    def body() -> None:
        engine = Asked(batch=1)
        jobs = [engine.put(b"1"), engine.put(b"2"), engine.put(b"3")]
        engine.dispatcher.give_up()
        assert [str(job.future.exception()) for job in jobs] == ["the device failed; the server stops"] * 3
        engine.put(b"4")
        assert len(engine.batches) == 2
        assert not engine.dispatcher.busy

    on_loop(body)


def test_nothing_is_sent_to_an_engine_that_went_while_others_might_join(on_leaping_loop: OnLoop) -> None:
    async def run() -> None:
        engine = Asked(delay=0.05)
        job = engine.put(b"1")
        engine.dispatcher.give_up()
        engine.put(b"2")
        await asyncio.sleep(0.2)
        assert engine.batches == []
        assert isinstance(job.future.exception(), Refusal)

    on_leaping_loop(run())


def test_a_delay_lets_others_join(on_leaping_loop: OnLoop) -> None:
    async def run() -> None:
        engine = Asked(batch=4, delay=0.05)
        engine.put(b"1", b"2")
        engine.put(b"3")
        assert engine.batches == []
        await asyncio.sleep(0.2)
        assert engine.batches == [[b"1", b"2", b"3"]]

    on_leaping_loop(run())


def test_who_has_waited_long_enough_waits_no_longer(on_leaping_loop: OnLoop) -> None:
    async def run() -> None:
        engine = Asked(batch=2, delay=0.1)
        engine.put(b"1", b"2")
        engine.put(b"3", b"4")
        gone = engine.put(b"5")
        await asyncio.sleep(0.2)
        engine.put(b"6")
        gone.future.cancel()
        assert engine.batches == [[b"1", b"2"], [b"3", b"4"]]  # more do not fit
        engine.answer(0)
        assert len(engine.batches) == 2  # of 5, nobody waits for it; 6 is new
        engine.put(b"7")
        assert engine.batches[2:] == [[b"6", b"7"]]
        engine.put(b"8")
        await asyncio.sleep(0.2)
        engine.answer(1)
        assert engine.batches[3:] == [[b"8"]]  # at once

    on_leaping_loop(run())


def test_a_full_batch_waits_no_longer() -> None:
    def body() -> None:
        engine = Asked(batch=3, delay=60)
        engine.put(b"1", b"2")
        engine.put(b"3", b"4")
        assert engine.batches == [[b"1", b"2", b"3"]]
        assert len(engine.dispatcher) == 1  # it waits anew

    on_loop(body)


@pytest.mark.parametrize("depth", [1, 3])
@given(data=st.data())
def test_every_job_gets_its_own_rows(depth: int, data: st.DataObject) -> None:
    """Whatever the sizes, and whichever batches of several jobs fail."""
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=12))
    batch = data.draw(st.integers(1, 9))

    def body() -> None:
        engine = Asked(batch=batch, depth=depth)
        wanted = [[10 * number + place for place in range(size)] for number, size in enumerate(sizes)]
        jobs = [engine.put(*(b"%d" % value for value in values_)) for values_ in wanted]
        done = 0
        while done < len(engine.batches):
            jobs_in = {int(text) // 10 for text in engine.batches[done]}
            if len(jobs_in) > 1 and data.draw(st.booleans()):
                engine.fail()
            else:
                engine.answer(done)
            done += 1
        assert [values(job) for job in jobs] == wanted

    on_loop(body)
