"""Logs: one line an event, for people or machines, and never in the way."""

from __future__ import annotations

import json
import logging
import os

import pytest

from accel_cli.serve.logs import Forward, Log


def written(capfd: pytest.CaptureFixture[str], log: Log) -> list[str]:
    log.close()
    return capfd.readouterr().err.splitlines()


def test_for_machines(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log("json")
    log.event("info", "request", path="/a b\n", code=200, ms=0.5, texts=["\u2603"])
    [line] = written(capfd, log)
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "info",
        "event": "request",
        "path": "/a b\n",
        "code": 200,
        "ms": 0.5,
        "texts": ["\u2603"],
    }


def test_for_people(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log("text")
    log.event("info", "request", path="/a", code=200, odd="two words", line="a\nb=\u2603", nothing="")
    [line] = written(capfd, log)
    _, rest = line.split(" ", 1)
    assert rest == 'info request path=/a code=200 odd="two words" line="a\\nb=\\u2603" nothing=""'


def test_what_libraries_log(capfd: pytest.CaptureFixture[str]) -> None:
    log = Log("json")
    logger = logging.getLogger("accel.test")
    logger.propagate = False
    logger.addHandler(Forward(log))
    try:
        raise ValueError("oh")
    except ValueError:
        logger.exception("it %s", "failed")
    logger.info("unimportant")
    [line] = written(capfd, log)
    found = json.loads(line)
    assert (found["level"], found["event"], found["message"]) == ("error", "server", "it failed")
    assert "ValueError: oh" in found["traceback"]


def test_a_reader_that_does_not_keep_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are dropped and counted; whoever logs is never held up."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as reader, os.fdopen(writing, "w") as stalled:
        monkeypatch.setattr("sys.stderr", stalled)
        log = Log("json")
        for _ in range(40_000):
            log.event("info", "request", filling="x" * 100)
        lines = dropped = 0
        while lines + dropped < 40_000:
            event = json.loads(reader.readline())
            dropped += event.get("count", 0)
            lines += event["event"] == "request"
        assert dropped > 0
        assert lines + dropped == 40_000
        log.close()


def test_no_reader_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    log = Log()
    log.event("info", "x")
    log.close()
