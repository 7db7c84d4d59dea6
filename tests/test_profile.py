"""Ranges on a profiler's timeline, and the time of each kernel, over a fake CuPy without a GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import networks
import numpy as np
import pytest
from conftest import ROOT, Accel, needs_gpu

from accel_cli.bench import suite
from accel_cli.bench.profile import Profile, profile, summed
from accel_cli.bench.tables import show
from accel_cli.commands.bench import command
from accel_cli.cuda import driver, stopwatch
from accel_cli.cuda.ranges import named
from accel_cli.cuda.stopwatch import Span, Stopwatch
from accel_cli.engines import cuda
from accel_cli.engines.cpu import CpuEngine
from accel_cli.engines.cuda import CudaEngine
from accel_cli.errors import UsageError
from accel_cli.kernels.base import Kernel, Launch
from accel_cli.model.config import Config

SPEC = networks.RAGGED
GRAPH = networks.WAYS["side by side, as a graph"]
TILE = (("ROWS", 64), ("DEPTH", 16))


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(stopwatch, "_HEAD_START", 0.0)
    fake_streams.fake_driver(monkeypatch)
    return module


def engine_of(**way: Any) -> CudaEngine:
    return CudaEngine(SPEC, networks.weights_of(SPEC), networks.plan("cuda:0", **way, batch=5, streams=2))


def batch_of(count: int) -> Any:
    return networks.sentences(SPEC, [9] * count)


# Ranges


def test_ranges_nest_and_end_with_what_they_enclose(cupy: Any) -> None:
    with named("outer"), named("inner"):
        assert cupy.cuda.nvtx.open == ["outer", "inner"]
    with pytest.raises(RuntimeError), named("outer"):
        raise RuntimeError
    assert cupy.cuda.nvtx.open == []


def test_a_cupy_without_nvtx_has_no_ranges(cupy: Any) -> None:
    cupy.cuda.nvtx.available = False
    with named("nothing"):
        pass
    assert cupy.cuda.nvtx.seen == []


def test_stages_stand_inside_their_batch(cupy: Any) -> None:
    engine_of().submit(batch_of(8)).result()
    seen = cupy.cuda.nvtx.seen
    stages = [
        "copies in",
        "convolution",
        "gate",
        "experts",
        "fc.0",
        "logits",
        "scores and labels",
        "copies out",
    ]
    for name in ("batch 1 of 5 sentences", "batch 2 of 3 sentences"):
        batch = ("running a batch", name)
        assert [path[2] for path in seen if path[:2] == batch and len(path) == 3] == stages
    assert ("waiting for a batch",) in seen
    assert cupy.cuda.nvtx.open == []


def test_a_graph_that_is_replayed_is_one_range(cupy: Any) -> None:
    engine = engine_of(**GRAPH)
    for _ in range(3):
        engine.submit(batch_of(10)).result()
    last = [path[2] for path in cupy.cuda.nvtx.seen if "batch 6 of 5 sentences" in path and len(path) == 3]
    assert last == ["copies in", "graph", "copies out"]


def test_the_cpu_imports_no_cupy(accel: Accel, tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text("raise SystemExit('cupy was imported')\n")
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "ACCEL_KERNEL_DEBUG": "line"}
    done = accel("run", "--device", "cpu", stdin=b"good film\n", environment=path)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr


# The stopwatch


@pytest.fixture
def clock(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Milliseconds that the fake device has worked; its events note them."""
    now = [0.0]

    class Event(fake_cupy.Event):
        at = -1.0

        def _reached(self) -> None:
            self.at = now[0]
            super()._reached()

    cupy.cuda.Event = Event
    cupy.cuda.get_elapsed_time = lambda begin, end: end.at - begin.at
    pause = lambda: now.__setitem__(0, now[0] + 1000.0)  # noqa: E731
    monkeypatch.setattr(driver, "hold", lambda stream, seconds: stream.enqueue(pause))
    return now


def launch_of(name: str, milliseconds: int) -> Launch:
    return Launch(Kernel(name, ()), (("MS", milliseconds),), (1, 1, 1), (1, 1, 1))


def test_each_launch_and_copy_has_its_own_time(clock: list[float]) -> None:
    def works(milliseconds: float) -> None:
        fake_cupy.Stream.current().enqueue(lambda: clock.__setitem__(0, clock[0] + milliseconds))

    run = Stopwatch(lambda launch, *arguments: works(launch.defines[0][1]))
    with fake_cupy.Stream() as stream:
        run(launch_of("before", 7))
        with run.measuring() as spans:
            with run.around("copies in"):
                works(3)
            run(launch_of("a", 5))
            works(100)  # what nobody asked for
            run(launch_of("b", 2))
            stream.synchronize()
        run(launch_of("after", 7))
    assert spans == [
        Span("copies in", (), 0.003),
        Span("a", (("MS", 5),), 0.005),
        Span("b", (("MS", 2),), 0.002),
    ]


def test_launches_belong_to_the_layer_that_is_named_after_them(clock: list[float]) -> None:
    run = Stopwatch(lambda launch, *arguments: None)
    with fake_cupy.Stream() as stream, run.measuring() as spans:
        run(launch_of("early", 1))
        with run.around("copies in"):
            run(launch_of("inside", 1))
        for name in ("a", "b"):
            run(launch_of(name, 1))
        run.observe("gate", None)
        run(launch_of("c", 1))
        run.observe("logits", None)
        run(launch_of("late", 1))
        stream.synchronize()
    assert [(span.name, span.layer) for span in spans] == [
        ("early", ""),
        ("copies in", ""),
        ("a", "gate"),
        ("b", "gate"),
        ("c", "logits"),
        ("late", ""),
    ]


def test_around_is_a_range_for_profilers_unless_measuring(cupy: Any) -> None:
    ran: list[str] = []
    run = Stopwatch(lambda launch, *arguments: ran.append(launch.kernel.name))
    with run.around("network"):
        run(launch_of("a", 1))
    assert (ran, cupy.cuda.nvtx.seen) == (["a"], [("network",)])


def test_a_failure_ends_the_measuring(cupy: Any) -> None:
    ran: list[str] = []
    run = Stopwatch(lambda launch, *arguments: ran.append(launch.kernel.name))
    with pytest.raises(RuntimeError), run.measuring():
        raise RuntimeError
    cupy.cuda.Event = None  # nothing is recorded any more
    run(launch_of("a", 1))
    assert ran == ["a"]


@pytest.mark.parametrize("way", ["naive products of stored windows", "side by side, as a graph"])
def test_the_engine_gives_each_kernel_and_copy_of_each_part(cupy: Any, way: str) -> None:
    engine = engine_of(**networks.WAYS[way])
    batch = networks.sentences(SPEC, [9] * 10)
    expected = [engine.submit(batch).result().logits for _ in range(3)][-1]
    names = [span.name for span in engine.kernel_times(batch)]
    half = names[: len(names) // 2]
    assert names == half * 2, "two parts of five sentences"
    last = "argmax" if "naive" in way else "skinny"
    assert (half[0], half[-2:]) == ("copies in", [last, "copies out"])
    assert half.count("softmax") == (2 if "naive" in way else 0)
    assert ("im2col" in half) == ("naive" in way)
    # and goes on as before
    np.testing.assert_array_equal(engine.submit(batch).result().logits, expected)


# The table


def test_spans_of_a_kernel_with_the_same_constants_are_one_row() -> None:
    other = (("ROWS", 32), ("DEPTH", 16))
    spans = [
        Span("sgemm", other, 2e-6),
        Span("sgemm", TILE, 3e-6),
        Span("copies in", (), 1e-6),
        Span("sgemm", TILE, 4e-6),
    ]
    rows = [row.as_json() for row in summed(spans)]
    assert [
        (row["kernel"], row["constants"], row["calls"], row["total_us"], row["mean_us"]) for row in rows
    ] == [
        ("sgemm", "ROWS=64 DEPTH=16", 2, 7.0, 3.5),
        ("sgemm", "ROWS=32 DEPTH=16", 1, 2.0, 2.0),
        ("copies in", "", 1, 1.0, 1.0),
    ]
    assert [row["percent"] for row in rows] == [70, 20, 10]


def test_a_clock_that_saw_nothing() -> None:
    (row,) = summed([Span("relu", (), 0.0)])
    assert row.as_json()["percent"] == row.as_json()["mean_us"] == 0


def test_the_batches_of_the_benchmark_after_a_warm_up(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, said, asked = engine_of(), [], []
    right = CudaEngine.kernel_times
    monkeypatch.setattr(
        CudaEngine, "kernel_times", lambda self, batch: asked.append(len(batch)) or right(self, batch)
    )
    found = profile(engine, [batch_of(5), batch_of(5), batch_of(2)], said.append)
    assert found is not None
    assert asked == [5, 5, 5, 2]
    assert (found.batches, found.sentences) == (3, 12)
    calls = {row.name: row.calls for row in found.kernels}
    assert (calls["copies in"], calls["argmax"], calls["softmax"]) == (3, 3, 6)
    assert said == ["profiling the kernels of 3 batches, in turn"]


def test_no_more_than_64_batches(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaEngine, "kernel_times", lambda self, batch: [Span("relu", (), 1.0)])
    found = profile(engine_of(), [batch_of(1)] * 70, lambda message: None)
    assert found is not None
    assert (found.batches, found.sentences, found.kernels[0].calls) == (64, 64, 64)


@pytest.mark.parametrize(
    ("reason", "remedy"), [(None, "measure kernels with --device cuda"), ("no driver", "no driver")]
)
def test_a_cpu_has_no_kernels(reason: str | None, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accel_cli.bench.profile.missing", lambda: reason)
    plan = networks.plan("cpu", **networks.CPU)
    engine, said = CpuEngine(SPEC, networks.weights_of(SPEC), plan), []
    assert profile(engine, [batch_of(2)], said.append) is None
    engine.close()
    assert said == [f"--profile: cpu has no kernels, so the table of stages is all there is; {remedy}"]


def test_the_command_on_a_cpu(accel_here: Accel) -> None:
    done = accel_here(
        "bench", "--device", "cpu", "--sentences", "5", "--repeats", "1", "--profile", "--json", "-"
    )
    assert done.returncode == 0, done.stderr
    assert b"accel: --profile: cpu has no kernels" in done.stderr
    assert json.loads(done.stdout)["profile"] is None


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--profile"], "--profile: with --ladder .*leave it out"),
        (["--kernel-debug", "line"], "--kernel-debug line: with --ladder .*leave it out"),
    ],
)
def test_a_ladder_is_neither_profiled_nor_debugged(option: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        command.main(["--ladder", "--rungs", "0", *option], standalone_mode=False)


def test_the_table_and_the_json(tiny: Config, capsys: pytest.CaptureFixture[str]) -> None:
    found = suite.run(tiny, "cpu", suite.Job(5, 1), lambda message: None)
    show(found)
    assert "Time in each kernel" not in capsys.readouterr().out
    rows = summed([Span("sgemm", TILE, 0.0015), Span("sgemm", TILE, 0.0015), Span("copies out", (), 0.001)])
    profiled = replace(found, profile=Profile(2, 1024, rows))
    show(profiled)
    out = capsys.readouterr().out
    table = out[out.index("Time in each kernel, 1024 sentences in 2 batches") :].splitlines()
    assert table[1].split() == ["kernel", "calls", "total", "us", "share", "mean", "us", "constants"]
    assert table[2].split() == ["sgemm", "2", "3,000.0", "75.0", "%", "1,500.00", "ROWS=64", "DEPTH=16"]
    assert table[3].split() == ["copies", "out", "1", "1,000.0", "25.0", "%", "1,000.00"]
    document = json.loads(profiled.text())["profile"]
    assert (document["batches"], document["sentences"], document["kernels"][0]["total_us"]) == (2, 1024, 3000)


@pytest.mark.gpu
@needs_gpu
def test_kernels_on_a_gpu(tiny: Config) -> None:
    found = suite.run(tiny, "cuda", suite.Job(50, 2, profile=True), lambda message: None)
    assert found.profile is not None
    assert sum(row.share for row in found.profile.kernels) == pytest.approx(1)
    assert {"copies in", "copies out"} < {row.name for row in found.profile.kernels}
    assert all(0 < row.seconds / row.calls < 0.01 for row in found.profile.kernels)
