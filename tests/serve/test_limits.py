"""Limits: from the plan, and refused when they contradict each other."""

from __future__ import annotations

import resource
from dataclasses import replace
from typing import Any

import pytest
from networks import RAGGED, SCHOOL, SENTIMENT, plan

from accel_cli.errors import UsageError
from accel_cli.serve.limits import Limits, limits_for


def limits(spec: Any = SENTIMENT, device: str = "cpu", **asked: Any) -> Limits:
    given = {"max_inflight": None, "max_batch_tokens": None, **asked}
    return limits_for(spec, plan(device, batch=64), **given)


def test_defaults_come_from_the_plan() -> None:
    assert limits().max_inflight == 512
    assert limits(device="cuda:0").max_inflight == 65_536
    assert limits().max_batch_tokens == 64 * 32
    assert limits(SCHOOL).max_batch_tokens == 64 * 16
    assert limits(RAGGED).max_batch_tokens == 64 * 24
    assert limits(replace(SENTIMENT, max_tokens=9999)).max_batch_tokens == 9999  # one sentence always fits
    assert limits().max_client_batch == 8192


def test_what_is_asked_for() -> None:
    asked = limits(max_inflight=3, max_batch_tokens=1000, max_client_batch=7, queue_delay=0.5)
    assert (asked.max_inflight, asked.max_batch_tokens, asked.max_client_batch) == (3, 1000, 7)
    assert asked.queue_delay == 0.5


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"max_batch_tokens": 255}, "--max-batch-tokens 255: one sentence of this model may have 256 tokens"),
        ({"max_body_bytes": 16383}, "--max-body-bytes 16383: one text of this model may have 16384 bytes"),
        (
            {"queue_delay": 2.0, "drain_timeout": 1.0},
            "--max-queue-delay-us 2000000 is no shorter than --drain-seconds 1",
        ),
    ],
)
def test_contradictions_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        limits(**asked)


def test_too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (64, 64))
    with pytest.raises(UsageError, match="this process may open 64 files, too few for a server"):
        limits()
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, 1024))
    assert limits().max_connections == 960
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY,) * 2)
    assert limits().max_connections == 4096
