"""accel bench --serve with real servers. No test asserts how fast anything is."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from config_files import write_config
from conftest import ROOT

from accel_cli.batches import Predictions
from accel_cli.bench import measure, serve_client, serve_process, serve_soak, serve_wrk
from accel_cli.bench.inputs import Sentences
from accel_cli.bench.serve_client import Load
from accel_cli.bench.serve_engine import Known
from accel_cli.bench.serve_process import serving
from accel_cli.bench.serve_requests import TEI, V2_BINARY, V2_JSON, Answers, Request, Requests
from accel_cli.bench.serve_soak import Soaking
from accel_cli.bench.serve_suite import Job, _Bench
from accel_cli.classifier import Classifier
from accel_cli.commands.bench import command
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config

NEEDED = ("uvicorn", "httptools", "uvloop", "prometheus_client")
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED), reason="no extra `serve`"
)

# Spoils every answer over TEI's protocol from the one numbered $FROM on: its labels change places.
SPOIL = """
import os
from accel_cli import commands
from accel_cli.serve import labels, tei

answer, asked, turned = tei.TeiQuestion.answer, 0, labels.Labels(["positive", "negative"])

def spoiled(question, found, sound):
    global asked
    asked += 1
    return answer(question, found, turned if asked > int(os.environ["FROM"]) else sound)

tei.TeiQuestion.answer = spoiled
commands.main()
"""
QUICK = ("--repeats", "1", "--seconds", "1", "--sentences", "300")


def bench(config: Path, *arguments: str) -> Any:
    """The command in this process."""
    line = ["--serve", "--device", "cpu", "--config", str(config), *arguments]
    return command.main(line, standalone_mode=False)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is a process of its own and must find this checkout."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def without_wrk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_process, "PROGRAM", (sys.executable, "-c", SPOIL))


@pytest.mark.usefixtures("without_wrk")
def test_every_way_is_measured_and_the_overload_is_checked(
    tiny_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "serve.json"
    bench(tiny_path, *QUICK, "--soak", "1", "--json", str(path))
    found = json.loads(path.read_text())
    assert (found["suite"], found["device"], found["load"]) == ("serve tiny", "cpu", "accel")
    assert {"plan", "machine", "versions", "commit", "date", "sentences", "clock", "limits"} <= found.keys()
    assert (found["checked_sentences"], found["sentences"]["count"]) == (32, 300)
    assert found["limits"]["max_concurrent_requests"] == 512
    ways = [(row["protocol"], row["n"], row["connections"]) for row in found["rows"]]
    assert ways == [(TEI, 1, 64), (V2_JSON, 256, 2), (V2_BINARY, 256, 2)]
    for row in found["rows"]:
        (repeat,) = row["repeats"]
        assert row["requests_per_s"] == pytest.approx(repeat["requests"] / repeat["seconds"], rel=1e-4)
        assert row["sentences_per_s"] == pytest.approx(row["n"] * row["requests_per_s"], rel=1e-4)
        assert row["x_engine"] == pytest.approx(
            row["sentences_per_s"] / found["engine"]["sentences_per_s"], rel=1e-4
        )
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p99_ms_worst"]
    (soak,) = found["soak"]
    assert soak["right"] > 0
    assert (soak["wrong"], soak["failed"]) == (0, 0)
    assert soak["sent"] == soak["right"] + soak["refused"]
    assert soak["offered_requests_per_s"] == pytest.approx(2 * soak["capacity_requests_per_s"], rel=1e-4)
    assert soak["recovery_ms"] > 0
    assert 0 < soak["start_mib"] <= soak["most_mib"] >= soak["end_mib"] > 0
    shown = capsys.readouterr().out
    assert "v2 binary" in shown
    assert "good again after" in shown


@pytest.mark.extras
@pytest.mark.skipif(serve_wrk.installed() is None, reason="wrk is not installed")
def test_every_way_is_loaded_by_wrk(tiny_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bench(tiny_path, *QUICK, "--json", "-")
    found = json.loads(capfd.readouterr().out)
    assert found["load"] == serve_wrk.installed()
    assert found["versions"]["wrk"] in found["load"]
    assert [len(row["repeats"]) for row in found["rows"]] == [1, 1, 1]
    assert all(row["p99_ms"] >= row["p50_ms"] > 0 for row in found["rows"])
    assert found["soak"] == []


@pytest.mark.skipif(serve_wrk.installed() is None, reason="wrk is not installed")
def test_load_from_wrk_and_refusals_under_it_which_are_no_figure(tiny_path: Path) -> None:
    requests = Requests("tiny", [b"good film w%d" % (i % 20) for i in range(64)]).cut(TEI, 1)
    nonsense = Request(TEI, 0, 1, False, b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n{")
    with serving(["--config", str(tiny_path), "--device", "cpu"]) as server:
        found = serve_wrk.load(server.port, requests, 2, 2.0)
        assert found.requests > 0
        assert found.seconds >= 1
        assert found.p99 >= found.p50 > 0
        with pytest.raises(AccelError, match=r"not timed, because [0-9]+ requests were refused or lost"):
            serve_wrk.load(server.port, [nonsense], 2, 2.0)


def test_refusals_of_our_own_load_say_what_the_server_said(tiny_path: Path) -> None:
    nonsense = Request(TEI, 0, 1, False, b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}")
    with (
        serving(["--config", str(tiny_path), "--device", "cpu"]) as server,
        pytest.raises(
            AccelError, match=r"requests were refused or lost.*the first with status 4[0-9]+: .*error"
        ),
    ):
        serve_client.load(server.port, [nonsense], 2, 2.0)


def settle_with(codes: Iterator[bytes]) -> None:
    """Wait for a server whose answers have these codes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            writer.write(b"HTTP/1.1 %s\r\ncontent-length: 0\r\n\r\n" % next(codes))
        writer.close()

    async def settle() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            await serve_client.settle(server.sockets[0].getsockname()[1], b"a request")

    serve_client.run(settle())


def test_the_next_load_waits_until_the_last_one_is_done() -> None:
    codes = iter([b"429 Too Many Requests"] * 2 + [b"200 OK", b"not asked for"])
    settle_with(codes)
    assert list(codes) == [b"not asked for"]


def test_a_server_that_stays_busy_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_client, "PATIENCE", 0.2)
    with pytest.raises(AccelError, match="not timed, because the server was still busy"):
        settle_with(repeat(b"429 Too Many Requests"))


@pytest.mark.parametrize(
    ("device", "admitted", "taken", "expected"),
    [
        ("cpu", 512, 8192, [(1, 64), (256, 2), (256, 2)]),
        ("cpu", 40, 100, [(1, 40), (100, 1), (100, 1)]),
        ("cuda:0", 65_536, 8192, [(1, 64), (256, 16), (256, 16), (4096, 16)]),
        ("cuda:0", 16_384, 2048, [(1, 64), (256, 16), (256, 16), (2048, 8)]),
    ],
)
def test_no_more_is_asked_than_the_server_admits(
    tiny: Config, device: str, admitted: int, taken: int, expected: list[tuple[int, int]]
) -> None:
    plan = Plan(device, "fp32", "folded", "folded", 4096, 2)
    limits = {"max_concurrent_requests": admitted, "max_client_batch_size": taken}
    server: Any = SimpleNamespace(port=1, info=lambda: {"plan": plan.keys(), **limits})
    known = Known(plan, Predictions.from_logits(np.zeros((5000, 2), np.float32)), 1, 0.0, {})
    job = Job((), 5000, 1, 1.0)
    bench = _Bench(tiny, Sentences([b"good"] * 5000, "here"), known, server, job, lambda _: None)
    assert [(way.size, way.connections) for way in bench._ways()] == expected


def test_what_is_refused_under_an_overload_is_no_failure(
    tiny: Config, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times the capacity is too much even where a busy machine had it found too small."""
    monkeypatch.setattr(serve_soak, "TIMES", 10.0)
    lines = [b"good film w%d" % (i % 20) for i in range(64)]
    with Classifier(tiny, "cpu") as classifier:
        predictions = measure.predict(classifier.engine, [classifier.tokenizer.encode(lines).batch])
    answers, told = Answers(tiny.model.labels, predictions, 1e-4), list[str]()
    slow = ("--max-inflight", "20", "--max-queue-delay-us", "50_000")
    with serving(["--config", str(tiny_path), "--device", "cpu", *slow]) as server:
        soaking = Soaking(server, Requests("tiny", lines), answers, told.append)
        soak = serve_client.run(soaking.run(len(lines), 16, 20, 1.0, 1.0))
    assert soak.passed
    assert soak.counts.refused > 0
    assert soak.counts.sentences >= soak.counts.right > 0
    assert len(told) == 1  # the capacity, and no complaint


@pytest.mark.usefixtures("spoiled")
def test_a_server_that_answers_wrong_is_not_timed(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM", "20")
    with pytest.raises(AccelError, match=r"TEI JSON .* sentence 20 on is answered otherwise"):
        bench(tiny_path, *QUICK)


@pytest.mark.usefixtures("spoiled", "without_wrk")
def test_wrong_answers_under_load_are_counted_and_fail(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FROM", "70")  # after the check
    monkeypatch.setattr(serve_client, "load", lambda *_: Load(1, 1.0, 1.0, 1.0))  # what is timed is right
    monkeypatch.setattr(serve_soak, "PATIENCE", 0.5)
    path = tmp_path / "serve.json"
    with pytest.raises(AccelError, match="answers were wrong") as failure:
        bench(tiny_path, *QUICK, "--soak", "1", "--json", str(path))
    assert failure.value.exit_code == 1
    assert json.loads(path.read_text())["soak"][0]["wrong"] > 0
    assert "wrong: sentences from" in capsys.readouterr().err


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    path = write_config(tmp_path, model__vocabulary="none.txt")
    with (
        pytest.raises(AccelError, match=r"the server ended with 1 before it could .*none\.txt"),
        serving(["--config", str(path), "--device", "cpu"]),
    ):
        pass


def resident(process: int) -> int | None:
    """The bytes of memory of one process; None where the system does not say."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text("ascii").splitlines() if status.exists() else []
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS")), None)


def test_the_engine_s_memory_is_the_server_s(tiny_path: Path) -> None:
    with serving(["--config", str(tiny_path), "--device", "cpu"]) as server:
        own = resident(server._process.pid)
        assert own is None or (server.memory() or 0) > 1.5 * own


def test_a_server_is_stopped_whatever_happens(tiny_path: Path) -> None:
    with pytest.raises(KeyError), serving(["--config", str(tiny_path), "--device", "cpu"]) as server:
        raise KeyError
    with pytest.raises(ConnectionRefusedError):
        server.get("/health")
    assert server.memory() is None or not Path("/proc").exists()


@pytest.mark.parametrize(
    "arguments",
    ["--peer torch", "--ladder", "--rungs 1", "--picture a.png", "--suite gemm", "--profile"],
)
def test_what_does_not_go_with_a_server(tiny_path: Path, arguments: str) -> None:
    with pytest.raises(UsageError, match=f"{arguments}.*only a server is measured"):
        bench(tiny_path, *arguments.split())


@pytest.mark.parametrize("name", ["--soak", "--seconds"])
def test_what_belongs_to_a_server(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} 5.*only with --serve"):
        command.main([name, "5"], standalone_mode=False)


def test_without_the_extra(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvloop" else name)
    with pytest.raises(AccelError, match=r"accel bench --serve needs uvloop, not installed here.*\[serve\]"):
        bench(tiny_path)
