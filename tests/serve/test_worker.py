"""The engine's thread, without a server around it."""

from __future__ import annotations

from asyncio import Future, new_event_loop
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_engine import classifier_of, fake_texts

from accel_cli import classifier as classifiers
from accel_cli.batches import TextBatch, TokenBatch
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Plan
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.cuda_text_reader import CudaTextReader
from accel_cli.model.config import Config
from accel_cli.serve.jobs import Job, JobQueue
from accel_cli.serve.metrics import Metrics
from accel_cli.serve.worker import Worker, warm_up
from serve.processes import PATIENCE


class Heard:
    """What the worker says."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.jobs: list[Job] = []
        self.errors: list[Exception] = []

    def ready(self, plan: Plan) -> None:
        self.plan = plan

    def done(self, jobs: Sequence[Job]) -> None:
        self.jobs += jobs

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def trouble(self, error: Exception) -> None:
        self.errors.append(error)


@pytest.mark.parametrize("tokens", [24, 50, 10_000])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_jobs_get_their_own_rows(tiny: Config, tokens: int, batch: int) -> None:
    texts = [[b"good film", b"bad " * 30], [b"not"], [b"a", b"b", b"", b"the film", b"w1"]]
    loop = new_event_loop()
    queue, heard = JobQueue(), Heard()
    jobs = [Job(TextBatch.of(part), Future(loop=loop)) for part in texts]
    queue.put(jobs)
    queue.close()
    with Classifier.load(tiny.path, device="cpu", batch=batch) as sound:
        expected = [sound.predict(part).scores for part in texts]
        worker = Worker(
            lambda: Classifier.load(tiny.path, device="cpu", batch=batch),
            queue,
            heard,
            Metrics("tiny"),
            tokens,
        )
        worker.start()
        worker.join(PATIENCE)
    loop.close()
    assert heard.errors == []
    assert heard.plan is not None
    assert heard.jobs == jobs
    for job, scores in zip(jobs, expected, strict=True):
        np.testing.assert_allclose(np.concatenate([part.scores for part in job.parts]), scores, atol=1e-6)
    assert [job.truncated for job in jobs] == [1, 0, 0]
    assert [job.tokens for job in jobs] == [5 + 24, 5, 25]


def test_texts_that_the_device_reads(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs get the same rows and counts, and the host finds no word of theirs, several batches under way."""
    texts = [[b"good film", b"bad " * 30], [b"not\na\r"] * 9, [b"a", b"b", b"", b"the film", b"w1"]]
    loop = new_event_loop()
    queue, heard = JobQueue(), Heard()
    jobs = [Job(TextBatch.of(part), Future(loop=loop)) for part in texts]
    queue.put(jobs)
    queue.close()
    monkeypatch.setattr(classifiers, "SHORT", 0)
    with fake_texts() as patch:
        sound = classifier_of(tiny_path)
        expected = [sound.tokenizer.encode(part) for part in texts]
        logits = [sound.engine.submit(part.batch).result().logits for part in expected]
        patch.setattr(CudaEngine, "submit", lambda *_: pytest.fail("the host found the words"))
        worker = Worker(lambda: sound, queue, heard, Metrics("tiny"), 10_000)
        worker.start()
        worker.join(PATIENCE)
    loop.close()
    assert heard.errors == []
    assert heard.jobs == jobs
    for job, encoded, wanted in zip(jobs, expected, logits, strict=True):
        assert np.concatenate([part.logits for part in job.parts]).tobytes() == wanted.tobytes()
        assert job.truncated == encoded.truncated.sum()
        assert job.tokens == encoded.batch.offsets[-1]


def test_after_the_warm_up_every_slot_for_text_has_its_graph(tiny_path: Path) -> None:
    with fake_texts():
        sound = classifier_of(tiny_path, batch=300, streams=3)
        warm_up(sound)
        reader = sound.engine.text_reader(sound.tokenizer)
        assert isinstance(reader, CudaTextReader)
        graphs = [slot._network._replays._graphs for slot in reader._slots]
    assert len(graphs) == 3
    assert all(kept[0] is not None for kept in graphs)


def test_what_cannot_be_loaded_is_told(tiny: Config) -> None:
    def fail() -> Classifier:
        raise ValueError("no such model")

    heard = Heard()
    worker = Worker(fail, JobQueue(), heard, Metrics("tiny"), 100)
    worker.start()
    worker.join(PATIENCE)
    assert [str(error) for error in heard.errors] == ["no such model"]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(20, 60))
def test_parts_keep_within_the_budget(lengths: list[int], tokens: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    batch = TokenBatch(np.arange(offsets[-1], dtype=np.int32), offsets)
    parts = batch.parts(tokens)
    assert all(0 < part.offsets[-1] <= tokens for part in parts)
    assert np.concatenate([part.lengths for part in parts]).tolist() == lengths
    assert np.array_equal(np.concatenate([part.ids for part in parts]), batch.ids)
    full = [part.offsets[-1] + after.lengths[0] for part, after in pairwise(parts)]
    assert all(size > tokens for size in full)  # none of them is smaller than it must be
