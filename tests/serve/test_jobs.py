"""The queue: whatever waits becomes the next batch, within its room."""

from __future__ import annotations

from asyncio import Future, new_event_loop
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.batches import Predictions, TextBatch
from accel_cli.serve.jobs import Job, JobQueue, Room

PLENTY = Room(1000, 1_000_000)
MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def job() -> Iterator[MakeJob]:
    loop = new_event_loop()

    def make(texts: int, size: int = 1) -> Job:
        """So many lines of so many bytes, their newlines included."""
        return Job(TextBatch.of([b"x" * (size - 1)] * texts), Future(loop=loop))

    yield make
    loop.close()


def sizes(shares: Any) -> list[int]:
    return [len(share) for share in shares]


def take(queue: JobQueue, room: Room = PLENTY) -> list[int]:
    return sizes(queue.take(room))


def test_all_that_waits_is_taken(job: MakeJob) -> None:
    queue = JobQueue()
    queue.put([job(1), job(2)])
    queue.put([job(3)])
    assert len(queue) == 6
    assert take(queue) == [1, 2, 3]
    assert take(queue) == []


def test_a_large_job_is_cut_and_keeps_its_place(job: MakeJob) -> None:
    queue = JobQueue()
    large = job(25)
    queue.put([job(4), large, job(1)])
    shares = queue.take(Room(10, 1000))
    assert [(share.start, share.stop, share.whole) for share in shares] == [(0, 4, True), (0, 6, False)]
    assert take(queue, Room(10, 1000)) == [10]
    assert take(queue, Room(10, 1000)) == [9, 1]
    assert large.taken == 25


def test_bytes_count_too_but_one_text_always_fits(job: MakeJob) -> None:
    queue = JobQueue()
    queue.put([job(3, 100), job(1, 5000), job(2, 1)])
    assert take(queue, Room(10, 150)) == [2]
    assert take(queue, Room(10, 150)) == [1, 1]
    assert take(queue, Room(10, 150)) == [2]


def test_nobody_waits_for_it_any_more(job: MakeJob) -> None:
    queue = JobQueue()
    gone, failed = job(2), job(2)
    gone.future.cancel()
    failed.fail(ValueError())
    failed.fail(KeyError())  # only the first one is heard
    assert isinstance(failed.future.exception(), ValueError)
    queue.put([gone, failed, job(1)])
    assert take(queue) == [1]
    queue.put([gone])
    assert take(queue) == []


def test_an_answer_is_whole_when_all_parts_are_there(job: MakeJob) -> None:
    whole = job(5)
    rows = [Predictions.from_logits(np.array(part, np.float32)) for part in ([[0, 1]] * 2, [[2, 3]] * 3)]
    whole.parts[2] = rows[1]  # the first part had to be tried again
    whole.resolve()
    assert not whole.over
    whole.parts[0] = rows[0]
    whole.resolve()
    assert whole.future.result().predictions.logits.tolist() == [[0, 1]] * 2 + [[2, 3]] * 3


def test_clearing(job: MakeJob) -> None:
    queue = JobQueue()
    queue.put([job(1), job(2)])
    assert [len(found.texts) for found in queue.clear()] == [1, 2]
    assert len(queue) == 0


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), max_size=12),
    st.integers(1, 20),
    st.integers(1, 100),
)
def test_every_text_is_taken_once_and_in_order(jobs: list[list[int]], texts: int, size: int) -> None:
    loop = new_event_loop()
    queue = JobQueue()
    made = [Job(TextBatch.of([b"x" * length for length in lengths]), Future(loop=loop)) for lengths in jobs]
    queue.put(made)
    taken: list[tuple[Job, int]] = []
    text = b""
    while shares := queue.take(Room(texts, size)):
        assert 0 < sum(sizes(shares)) <= texts
        held = [len(line) for share in shares for line in share.text.splitlines(keepends=True)]
        assert len(held) == sum(sizes(shares))
        text += b"".join(share.text for share in shares)
        assert sum(held[:-1]) < size  # it ends with the text that fills it
        taken += [(share.job, place) for share in shares for place in range(share.start, share.stop)]
    assert taken == [(job, place) for job in made for place in range(len(job.texts))]
    assert text == b"".join(job.texts.text for job in made)
    loop.close()
