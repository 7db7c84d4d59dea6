"""Work that comes again runs as a graph, and an error while it is captured costs that call alone."""

from __future__ import annotations

import sys
from typing import Any

import fake_cupy
import pytest
from fake_streams import Stream

from accel_cli.cuda import graphs
from accel_cli.cuda.graphs import Replays


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


class Counted:
    """Work that says how often it was enqueued and how often it ran."""

    def __init__(self) -> None:
        self.enqueued = self.ran = 0

    def __call__(self) -> None:
        self.enqueued += 1
        Stream.current().enqueue(self._run)

    def _run(self) -> None:
        self.ran += 1


def test_work_is_enqueued_twice_and_replayed_from_then_on() -> None:
    stream, first, second = Stream(), Counted(), Counted()
    replays = Replays(stream)
    with stream:
        for _ in range(5):
            replays(0, first)
            replays(7, second)
        stream.synchronize()
    assert (first.enqueued, first.ran, second.enqueued, second.ran) == (2, 5, 2, 5)


def test_no_more_graphs_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "_MOST", 1)
    stream, first, second = Stream(), Counted(), Counted()
    replays = Replays(stream)
    with stream:
        for _ in range(4):
            replays(0, first)
            replays(1, second)
        stream.synchronize()
    assert (first.enqueued, first.ran, second.enqueued, second.ran) == (2, 4, 4, 4)


def test_an_error_in_a_capture_costs_one_call() -> None:
    stream, work = Stream(), Counted()
    replays = Replays(stream)

    def broken() -> None:
        work()
        raise KeyboardInterrupt

    with stream:
        replays(0, work)
        with pytest.raises(KeyboardInterrupt):
            replays(0, broken)
        replays(0, work)
        stream.synchronize()
    assert work.ran == 2
