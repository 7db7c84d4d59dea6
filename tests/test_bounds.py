"""accel bench --stages: what stages need, what the device can do, and what bounds each. No GPU."""

from __future__ import annotations

import json
import sys
from typing import Any

import fake_cupy
import fake_streams
import networks
import numpy as np
import pytest
from conftest import Accel, needs_gpu
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from accel_cli.batches import TokenBatch
from accel_cli.bench import bounds, ceiling, limits, suite
from accel_cli.bench.bounds import Bounds, Part, StageBounds, batch_bounds, stages_of
from accel_cli.bench.bounds_table import shown
from accel_cli.bench.demand import Need, device_needs, distinct_rows, host_needs, mean
from accel_cli.bench.lab import rates
from accel_cli.bench.limits import Limits, Sizes, device_limits, rate_text
from accel_cli.bench.tables import show
from accel_cli.commands.bench import command
from accel_cli.cuda import stopwatch
from accel_cli.engines import cuda
from accel_cli.engines.cpu import CpuEngine
from accel_cli.engines.cuda import CudaEngine
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config, ModelSpec

SPEC = networks.RAGGED
FOLDED = {**networks.FUSED, "convolution": "folded", "experts": "folded"}
SIZES = Sizes(product=8, memory=1 << 12, pcie=1 << 10)
RATES = {"L2": 1e9, "memory": 1e8, "fp32": 1e10, "launches": 1e5, "PCIe in": 1e7}
MOST = Limits(RATES, dict.fromkeys(RATES, "a guess"))
SLOW = [FOLDED, *(networks.WAYS[name] for name in ("implicit", "Toom-Cook, experts folded"))]
# 3 sentences of 9, 5 and 6 words.
BATCH = networks.sentences(SPEC, [9, 5, 6])


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    for place in (cuda, ceiling, limits):
        monkeypatch.setattr(place, "Launcher", fake_cupy.Launcher)
    monkeypatch.setitem(fake_cupy.PROPERTIES, "multiProcessorCount", 1)
    monkeypatch.setitem(fake_cupy.PROPERTIES, "l2CacheSize", 1 << 16)
    monkeypatch.setattr(limits, "_BLOCKS", 2)
    monkeypatch.setattr(limits, "_ROUNDS", 3)
    monkeypatch.setattr(rates, "_BLOCKS", 1)
    monkeypatch.setattr(rates, "FMA_ROUNDS", 2)
    monkeypatch.setattr(limits, "_REPEATS", 1)
    monkeypatch.setattr(ceiling, "_REPEATS", 1)
    monkeypatch.setattr(bounds, "_REPEATS", 1)
    monkeypatch.setattr(bounds, "_RUN", 0.0)
    monkeypatch.setattr(stopwatch, "_HEAD_START", 0.0)
    fake_streams.fake_driver(monkeypatch)
    return module


def engine_of(spec: ModelSpec = SPEC, **way: Any) -> CudaEngine:
    plan = networks.plan("cuda:0", **{**way, "batch": 5, "streams": 2})
    return CudaEngine(spec, networks.weights_of(spec), plan)


class TestNeeds:
    """By hand: widths 3 and 5 of 10 filters, 12 values a word, 3 experts of 6, then 7, then 2 labels."""

    def needs(self, batch: TokenBatch = BATCH, **way: Any) -> dict[str, Need]:
        plan = networks.plan("cuda:0", **{**way, "batch": 5, "streams": 2})
        return device_needs(SPEC, plan, batch)

    def test_copies(self) -> None:
        needs = self.needs(**FOLDED)
        assert needs["copies in"].demand == {"PCIe in": 4 * (20 + 4)}  # ids and offsets
        assert needs["copies out"].demand == {"PCIe out": 4 * 3 * (2 + 2 + 1)}  # logits, scores, label

    def test_a_folded_convolution_reads_a_row_for_each_tap_of_each_window(self) -> None:
        batch = TokenBatch(np.array([7, 7, 7, 7, 7, 7], np.int32), np.array([0, 6], np.int32))
        found = self.needs(batch, **FOLDED)["features"]
        rest = 4 * (6 + 2) + 4 * 20  # ids, offsets; features
        rows = 4 * 3 + 2 * 5  # windows times taps; a row is 10 floats, filled up to 128 bytes
        assert found.demand["L1"] == found.demand["L2"] == 128 * rows + rest
        assert found.demand["memory"] == 128 * (3 + 5) + rest  # the same word at each tap
        assert found.flop == 10 * (4 * 2 + 2 * 4)
        assert found.demand["fp32"] == 2 * found.flop  # an addition takes the place of two operations

    def test_a_table_of_whole_numbers_is_not_added_in_fp32(self) -> None:
        found = self.needs(**{**FOLDED, "precision": "fp16", "gemm": "wgmma"})["features"]
        assert "fp32" not in found.demand
        assert found.flop > 0

    def test_a_convolution_by_products(self) -> None:
        found = self.needs(**networks.FUSED)["features"]
        windows = (7 + 3 + 4, 5 + 1 + 2)
        assert found.flop == 2 * 12 * 10 * (3 * windows[0] + 5 * windows[1])
        weights = (3 + 5) * 12 * 10
        # words are gathered by the product's loads; features; ids
        assert found.demand["memory"] == 4 * (20 * 12 + weights + 3 * 20) + 4 * 20
        assert found.demand["fp32"] == found.flop

    def test_gate_experts_and_the_rest(self) -> None:
        needs = self.needs(**networks.FUSED)
        assert list(needs) == ["copies in", "features", "gate", "experts", "fc.0", "logits", "copies out"]
        assert needs["gate"].flop == 2 * 3 * 20 * 3
        assert needs["gate"].demand["memory"] == 4 * (3 * 20 + 21 * 3 + 3 * 3)
        assert needs["experts"].flop == 2 * 3 * 21 * 3 * 6
        assert needs["experts"].demand["memory"] == 4 * (3 * 20 + 21 * 18 + 3 * 6 + 3 * 3)
        assert needs["fc.0"].flop == 2 * 3 * 6 * 7
        assert needs["fc.0"].demand["memory"] == 4 * (3 * 6 + 7 * 7 + 3 * 7)
        assert needs["logits"].flop == 2 * 3 * 7 * 2
        assert needs["logits"].demand["memory"] == 4 * (3 * 7 + 8 * 2 + 3 * 2) + 4 * 3 * (2 + 1)

    def test_folded_experts_are_the_first_layer(self) -> None:
        needs = self.needs(**FOLDED)
        assert list(needs) == ["copies in", "features", "gate", "fc.0", "logits", "copies out"]
        assert needs["fc.0"].flop == 2 * 3 * 21 * 3 * 7

    def test_split_operands_count_three_times_on_tensor_cores(self) -> None:
        plain = self.needs(**networks.FUSED)["fc.0"]
        split = self.needs(**{**networks.FUSED, "precision": "fp32-split", "gemm": "wgmma"})
        assert split["fc.0"].demand["tensor fp16"] == 3 * plain.flop
        assert split["gate"].demand["fp32"] == split["gate"].flop  # few outputs stay in fp32
        assert split["logits"].demand["fp32"] == split["logits"].flop

    def test_tf32_has_a_rate_of_its_own(self) -> None:
        needs = self.needs(**{**networks.FUSED, "precision": "tf32", "gemm": "mma"})
        assert needs["experts"].demand["tensor tf32"] == needs["experts"].flop

    def test_the_cpu_adds_rows_of_the_table(self) -> None:
        stages = ["features", "gate", "fc.0", "logits"]
        needs = host_needs(SPEC, networks.plan("cpu", **networks.CPU), BATCH, stages)
        assert list(needs) == stages
        assert needs["features"].demand["fp32"] == 2 * needs["features"].flop
        assert needs["gate"].demand["fp32"] == needs["gate"].flop

    def test_the_mean(self) -> None:
        found = mean([Need(2, {"L2": 4}), Need(4, {"L2": 8, "memory": 2})])
        assert found == Need(3, {"L2": 6, "memory": 1})


@given(st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=9), min_size=1, max_size=4))
def test_distinct_rows_are_the_words_at_each_tap(sentences: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int32)
    batch = TokenBatch(np.concatenate(sentences).astype(np.int32), offsets)
    rows = {
        (width, tap, words[first + tap])
        for words in sentences
        for width in (2, 5)
        for first in range(len(words) - width + 1)
        for tap in range(width)
    }
    assert distinct_rows(batch, (2, 5)) == len(rows)


class TestLimits:
    def test_of_a_device(self, cupy: Any) -> None:
        found = device_limits(0, SIZES)
        names = ["memory", "fp32", "L1", "L2", "PCIe in", "PCIe out", "launches"]
        assert list(found.rates) == list(found.how) == names
        # the fake device takes a millisecond for anything; a round reads pieces of 8 KiB
        assert found.rates["fp32"] == pytest.approx(256 * 8 * 2 * 2 / 1e-3)
        assert found.rates["L1"] == found.rates["L2"] == pytest.approx(8192 * 2 * 3 / 1e-3)
        assert found.rates["PCIe in"] == found.rates["PCIe out"] == pytest.approx(1024 / 1e-3)
        assert found.rates["launches"] == pytest.approx(1000)
        assert [row["resource"] for row in found.as_json()] == names

    def test_a_wrong_read_is_no_limit(self, cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "zero", lambda array: array.fill(1))
        with pytest.raises(AccelError, match="a buffer of zeros was read as something else"):
            device_limits(0, SIZES)

    def test_of_this_host(self) -> None:
        found = limits.host_limits(32, 1 << 12)
        assert list(found.rates) == ["fp32", "memory"]
        assert all(rate > 0 for rate in found.rates.values())

    @pytest.mark.parametrize(
        ("resource", "rate", "text"),
        [
            ("L2", 5.5e12, "5,500.0 GB/s"),
            ("fp32", 5.05e13, "50.50 TFLOP/s"),
            ("fp32", 8e10, "80.0 GFLOP/s"),
            ("launches", 5e5, "500,000"),
        ],
    )
    def test_rates_are_told_in_their_units(self, resource: str, rate: float, text: str) -> None:
        assert rate_text(resource, rate) == text


class TestBound:
    def bound(self, seconds: float, launches: int = 0, **demand: float) -> Any:
        return StageBounds.of("one", seconds, launches, Need(0, demand), MOST).bound

    def test_the_nearest_limit(self) -> None:
        found = self.bound(1e-3, L2=5e5, memory=6e4, fp32=1e6)
        assert (found.resource, found.share) == ("memory", pytest.approx(0.6))

    def test_more_than_the_cache_gives_came_from_a_nearer_one(self) -> None:
        found = self.bound(1e-3, L2=2e6, memory=3e4)
        assert (found.resource, found.share) == ("memory", pytest.approx(0.3))

    def test_what_is_beyond_all_limits_is_told_as_it_is(self) -> None:
        assert self.bound(1e-3, L2=2e6).share == pytest.approx(2)

    def test_a_small_kernel_is_bound_by_its_launch(self) -> None:
        assert self.bound(2e-5, launches=1, memory=100).resource == "launches"

    def test_a_resource_whose_limit_is_not_known(self) -> None:
        assert self.bound(1e-3, **{"tensor fp16": 1e9}) is None

    def test_a_clock_that_saw_nothing(self) -> None:
        assert self.bound(0.0, memory=1e9) is None


class TestBatch:
    @pytest.mark.parametrize(
        "way",
        [
            networks.NAIVE,
            networks.WAYS["naive products of stored windows"],
            *(pytest.param(way, marks=pytest.mark.extras) for way in SLOW),
        ],
    )
    def test_every_launch_and_copy_belongs_to_a_stage(self, cupy: Any, way: dict[str, str]) -> None:
        engine = engine_of(**way)
        found = stages_of(engine, BATCH)
        assert list(found) == list(device_needs(SPEC, engine.plan, BATCH))
        spans = [span for span in engine.kernel_times(BATCH) if span.constants]
        assert sum(launches for _, launches in found.values()) == len(spans)

    def test_the_figures_of_a_batch(self, cupy: Any) -> None:
        found = batch_bounds(SPEC, engine_of(), [networks.sentences(SPEC, [9] * 5)] * 2, MOST)
        assert (found.unit, found.sentences, found.streams, found.threads) == ("batch", 5, 2, 1)
        stages = {stage.name: stage for stage in found.stages}
        # by the fake device's clock, where anything takes a millisecond
        assert (stages["gate"].launches, stages["gate"].seconds) == (2, pytest.approx(2e-3))
        assert stages["copies in"].bound is not None
        assert stages["copies in"].bound.resource == "PCIe in"
        assert stages["copies in"].bound.share == pytest.approx(4 * (45 + 6) / 1e7 / 1e-3)
        assert found.seconds == pytest.approx(1e-3 * sum(max(s.launches, 1) for s in found.stages))
        assert found.wall > 0
        assert found.host is not None
        assert found.host > 0

    def test_a_last_batch_that_is_smaller_is_left_out(
        self, cupy: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, right = [], CudaEngine.kernel_times
        monkeypatch.setattr(
            CudaEngine, "kernel_times", lambda self, batch: asked.append(len(batch)) or right(self, batch)
        )
        batch_bounds(SPEC, engine_of(), [BATCH, BATCH, BATCH.rows(0, 1)], MOST)
        assert asked == [3, 3, 3]  # the first to warm up

    def test_on_a_cpu(self) -> None:
        engine = CpuEngine(SPEC, networks.weights_of(SPEC), networks.plan("cpu", **networks.CPU))
        found = batch_bounds(SPEC, engine, [BATCH], MOST)
        engine.close()
        assert [stage.name for stage in found.stages] == ["features", "gate", "fc.0", "logits"]
        assert (found.host, found.host_share) == (None, None)
        assert {stage.bound.resource for stage in found.stages if stage.bound} <= {"fp32", "memory"}


class TestReport:
    def part(self) -> Part:
        stages = [
            StageBounds.of("copies in", 1e-4, 0, Need(0, {"PCIe in": 500}), MOST),
            StageBounds.of("features", 3e-4, 1, Need(1e6, {"L2": 1.5e5, "memory": 3000}), MOST),
            StageBounds.of("network", 0.0, 0, Need(), MOST),
        ]
        return Part("batch", 512, stages, 2e-4, 3, 5e-5)

    def test_the_table(self) -> None:
        console = Console(width=170)
        with console.capture() as capture:
            for piece in shown(Bounds(MOST, [self.part()])):
                console.print(piece)
        lines = capture.get().splitlines()
        rows = {line.split()[0]: line.split() for line in lines if line}
        words = ["features", "300.0", "75.0", "%", "1", "0.00", "0.15", "0.00", "-", "L2"]
        assert rows["features"] == [*words, "0.5", "GB/s", "1.0", "GB/s", "50.0"]
        assert rows["copies"][:4] == ["copies", "in", "100.0", "25.0"]
        assert rows["network"] == ["network", "0.0", "0.0", "%", *["-"] * 9]
        assert rows["host"] == ["host", "50.0", *["-"] * 6, "host", "-", "-", "25.0"]
        assert lines[-1] == (
            "A batch: 400.0 us of stages, 200.0 us on the wall with 3 of them under way: 2.00 stages at once;"
            " the host's thread is busy for 25 % of that"
        )

    def test_the_json(self) -> None:
        (part,) = Bounds(MOST, [self.part()]).as_json()["parts"]
        assert (part["stages_us"], part["wall_us"], part["host_percent"]) == (400, 200, 25)
        features = part["stages"][1]
        assert (features["bound"], features["percent_of_bound"]) == ("L2", 50)
        assert features["needs"] == {"L2": 150000, "memory": 3000, "launches": 1}
        assert part["stages"][2]["bound"] is None

    def test_a_benchmark_on_a_cpu_has_them(self, tiny: Config, capsys: pytest.CaptureFixture[str]) -> None:
        found = suite.run(tiny, "cpu", suite.Job(20, 1, stages=True), lambda message: None)
        show(found)
        assert "What bounds each stage of a batch of 20 sentences" in capsys.readouterr().out
        document = json.loads(found.text())["bounds"]
        assert [row["resource"] for row in document["limits"]] == ["fp32", "memory"]
        assert [part["unit"] for part in document["parts"]] == ["batch"]

    def test_without_the_option_there_are_none(self, accel_here: Accel) -> None:
        done = accel_here("bench", "--device", "cpu", "--sentences", "5", "--repeats", "1", "--json", "-")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["bounds"] is None


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (
            ["--ladder", "--rungs", "0"],
            "--stages: with --ladder the rungs say all else themselves; leave it out",
        ),
        (["--suite", "gemm"], "--stages: with --suite gemm nothing but products is measured; leave it out"),
        (["--suite", "shards"], "--stages: with --suite shards whole runs are measured; leave it out"),
        (["--serve"], "--stages: with --serve only a server is measured; leave it out"),
    ],
)
def test_what_has_no_stages(others: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        command.main(["--stages", *others], standalone_mode=False)


@pytest.mark.gpu
@needs_gpu
def test_stages_on_a_gpu(tiny: Config) -> None:
    found = suite.run(tiny, "cuda", suite.Job(50, 2, stages=True), lambda message: None).bounds
    assert found is not None
    assert {"fp32", "memory", "L1", "L2", "PCIe in", "PCIe out", "launches"} <= set(found.limits.rates)
    assert found.limits.rates["L1"] > found.limits.rates["L2"] > found.limits.rates["memory"] / 2
    stages = [stage for part in found.parts for stage in part.stages]
    assert all(stage.seconds > 0 for stage in stages)
