"""accel bench --ladder: which rungs there are, that each is checked before it is timed, what is reported."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_cupy
import ladders
import networks
import numpy as np
import pytest
import yaml
from conftest import needs_gpu

from accel_cli.batches import Batch, EmbeddingBatch, Predictions
from accel_cli.bench import ceiling, ladder, ladder_clock, ladder_report, measure
from accel_cli.bench.ceiling import Ceiling, measure_ceiling
from accel_cli.bench.ladder import Job
from accel_cli.bench.ladder_inputs import EVERY, Inputs, make_inputs
from accel_cli.bench.ladder_report import LadderReport
from accel_cli.bench.rungs import PACKAGED, numbers, rungs
from accel_cli.bench.traffic import bytes_each
from accel_cli.commands.bench import LadderFailed, command
from accel_cli.cuda import device
from accel_cli.engines import cuda
from accel_cli.errors import AccelError, DeviceError, UsageError
from accel_cli.model.config import load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import load_golden
from accel_cli.model.reference import forward
from accel_cli.model.toomcook import toom_cook

WHOLE = frozenset(range(11))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ladders.make_ladder(tmp_path_factory.mktemp("climbed"))


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(folder.parent, tmp_path / "own")) / "ladder"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is none: its kernels run on the CPU."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(ceiling, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(ladder, "measure_ceiling", lambda index: Ceiling("abacus", 8, 1e9, 1e9))
    monkeypatch.setattr(ladder_report, "machine", lambda gpu: {})
    monkeypatch.setattr(ladder_report, "versions", lambda gpu, programs: {})


def climb(folder: Path, chosen: set[int], count: int = 40) -> LadderReport:
    return ladder.run(Job(folder, frozenset(chosen), count, 2), lambda message: None)


def spoil(path: Path, **plan: Any) -> None:
    values = yaml.safe_load(path.read_text())
    values["plan"].update(plan)
    ladders.write(path, values)


class TestRungs:
    def test_the_packaged_ladder_has_eleven_over_the_school_network(self, gpu: None) -> None:
        found = rungs(PACKAGED, None, "auto")
        assert [rung.number for rung in found] == sorted(WHOLE)
        assert {rung.config.model for rung in found} == {load_config("school").model}
        assert [rung.plan.device for rung in found] == ["cpu"] + ["cuda:0"] * 10
        assert {rung.plan.precision for rung in found} == {"fp32"}

    def test_some_of_them_on_another_gpu(self, gpu: None, folder: Path) -> None:
        found = rungs(folder, numbers("0,9-10"), "cuda:1")
        assert [(rung.number, rung.plan.device) for rung in found] == [
            (0, "cpu"),
            (9, "cuda:1"),
            (10, "cuda:1"),
        ]
        assert str(found[-1]) == "rung 10 (toomcook)"

    @pytest.mark.parametrize(("text", "found"), [("4", {4}), ("4,6-8", {4, 6, 7, 8}), (" 1 , 1-2", {1, 2})])
    def test_numbers(self, text: str, found: set[int]) -> None:
        assert numbers(text) == found

    @pytest.mark.parametrize("text", ["", "a", "4-", "6-4", "1,,2", "-1"])
    def test_what_is_no_list_of_rungs(self, text: str) -> None:
        with pytest.raises(UsageError, match=r"no number and no range; write 4 or 6-10"):
            numbers(text)

    def test_refusals(self, gpu: None, own: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"has no rung 12; there are 0, 1, .*10"):
            rungs(own, frozenset({1, 12}), "auto")
        with pytest.raises(UsageError, match=r"no rungs there; they are files like 00-cpu.yaml"):
            rungs(tmp_path, None, "auto")
        with pytest.raises(UsageError, match=r"--device cpu: a rung says where it runs; .*--rungs 0"):
            rungs(own, None, "cpu")

    def test_other_models_are_refused(self, own: Path) -> None:
        (own / "11-other.yaml").write_text("extends: 00-cpu.yaml\nmodel: {filters: 9}\n")
        with pytest.raises(UsageError, match=r"11-other.yaml: another model than that of rung 0 \(cpu\)"):
            rungs(own, frozenset({0, 11}), "auto")

    @pytest.mark.parametrize(
        ("key", "message"), [("length", "set model.length"), ("golden", "no rung is timed unchecked")]
    )
    def test_models_without_what_a_ladder_needs(self, own: Path, key: str, message: str) -> None:
        model = {name: value for name, value in ladders.MODEL.items() if name != key}
        ladders.write(own.parent / "school.yaml", {"model": model})
        with pytest.raises(UsageError, match=message):
            rungs(own, frozenset({0}), "auto")

    def test_without_a_gpu_the_rung_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(device, "missing", lambda: "no driver")
        with pytest.raises(DeviceError, match=r"rung 1 \(gpu\): .*no driver, or leave it out with --rungs"):
            rungs(folder, None, "auto")


@pytest.fixture(scope="module")
def inputs(folder: Path) -> Inputs:
    spec = load_config(folder.parent / "school.yaml").model
    weights = obtain_weights(spec)
    golden = load_golden(folder.parent / "golden.safetensors", spec, weights)
    return make_inputs(spec, weights, golden, 100, locked=False)


class TestInputs:
    def test_every_16th_is_golden_and_both_kinds_are_the_same(self, folder: Path, inputs: Inputs) -> None:
        spec = load_config(folder.parent / "school.yaml").model
        weights = obtain_weights(spec)
        logits = forward(spec, weights, inputs.tokens)["logits"]
        embedded = forward(spec, weights, EmbeddingBatch(inputs.values))["logits"]
        np.testing.assert_array_equal(logits, embedded)
        assert inputs.error(0, logits.astype(np.float32), "fp32") < 1e-6
        assert len({ids.tobytes() for ids in inputs.tokens.ids.reshape(100, -1)}) > 80
        assert list(inputs.starts(40)) == [0, 48]
        assert inputs.error(48, logits[48:88].astype(np.float32), "fp32") < 1e-6

    def test_each_golden_sentence_is_compared(self, folder: Path, inputs: Inputs) -> None:
        spec = load_config(folder.parent / "school.yaml").model
        logits = forward(spec, obtain_weights(spec), inputs.tokens)["logits"].astype(np.float32)
        logits[3 * EVERY, 1] += 1
        with pytest.raises(AccelError, match="other logits than the golden ones in the run that is timed"):
            inputs.error(0, logits, "fp32")
        assert inputs.error(0, logits[: 3 * EVERY], "fp32") < 1e-6

    def test_batches_cover_a_window_in_place_or_copied(self, inputs: Inputs) -> None:
        for copied in (False, True):
            parts = inputs.batches("embeddings", 32, 20, 8, copied=copied)
            assert [len(part) for part in parts] == [8, 8, 4]
            values = np.concatenate([part.values for part in parts if isinstance(part, EmbeddingBatch)])
            np.testing.assert_array_equal(values, inputs.values[32:52])
            assert np.shares_memory(parts[0].values, inputs.values) != copied  # type: ignore[union-attr]


class TestClock:
    def test_a_slow_first_call_of_a_size_does_not_make_the_rung_look_slow(
        self, inputs: Inputs, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = load_config(folder.parent / "school.yaml").model
        seen: list[int] = []

        def answer(batches: list[Batch]) -> np.ndarray:
            seen.append(sum(map(len, batches)))
            return forward(spec, obtain_weights(spec), batches[0])["logits"].astype(np.float32)

        def timed(run: Any) -> tuple[float, float]:
            run()
            return (10.0 if seen.count(seen[-1]) == 1 else 1e-3), 0.0

        monkeypatch.setattr(ladder_clock, "timed", timed)
        plan = networks.plan("cpu", batch=200)
        subject = ladder_clock.Subject(0, "cpu", "accel", plan, answer, 1)
        [row, *_] = ladder_clock.Clock(spec, inputs, subject, 2).warm("ids")
        assert row.figure.n == len(inputs)


class TestClimb:
    def test_figures(self, gpu: None, folder: Path) -> None:
        document = climb(folder, {0, 1, 3}).as_json()
        assert document["failed"] == {}
        assert document["checked_sentences"] == 5
        rows = {(row["rung"], row["input"], row["regime"]): row for row in document["rows"]}
        kinds = {("embeddings", "cold"), ("embeddings", "many"), ("ids", "many")}
        assert set(rows) == {(number, *kind) for number in (0, 1, 3) for kind in kinds}
        row, first = rows[3, "embeddings", "many"], rows[0, "embeddings", "many"]
        assert row["x_first"] == pytest.approx(row["sentences_per_s"] / first["sentences_per_s"], rel=1e-4)
        before = rows[1, "embeddings", "many"]["sentences_per_s"]
        assert row["x_before"] == pytest.approx(row["sentences_per_s"] / before, rel=1e-4)
        assert (first["x_first"], first["x_before"]) == (1, None)
        flop = 2 * 16 * 8 * (5 * 2 + 4 * 3) + 2 * (16 * 4 + 16 * 32 + 32 + 8 * 8 + 8 * 2)
        assert document["flop_per_sentence"] == flop
        assert row["tflop_per_s"] == pytest.approx(flop * row["sentences_per_s"] / 1e12, rel=1e-4)
        assert row["percent_of_ceiling"] == pytest.approx(row["tflop_per_s"] / 1e-3 * 100, rel=1e-4)
        assert row["seconds_min"] <= row["seconds"] <= row["seconds_max"]
        assert len(row["repeats"]) == 2
        assert (row["plan"].split()[0], row["batch"], row["n"]) == ("device=cuda:0", 4, 40)
        assert 0 < row["max_error"] < 1e-4
        assert rows[3, "embeddings", "cold"]["n"] == 32
        json.dumps(document, allow_nan=False)

    @pytest.mark.gpu
    @needs_gpu
    def test_every_rung_is_right_on_a_gpu(self, folder: Path) -> None:
        report = climb(folder, set(WHOLE))
        assert report.failed == {}
        assert {row.rung for row in report.rows} == WHOLE
        assert report.ceiling is not None
        json.dumps(report.as_json(), allow_nan=False)

    def test_512_sentences_have_a_row_of_their_own_where_there_are_more(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert ladder_clock.ONE_BATCH == 512
        monkeypatch.setattr(ladder_clock, "ONE_BATCH", 24)
        report = climb(folder, {0})
        assert [(row.place, row.figure.n) for row in report.rows] == [
            (("embeddings", "cold"), 32),
            (("embeddings", "many"), 40),
            (("embeddings", "one batch"), 24),
            (("ids", "many"), 40),
            (("ids", "one batch"), 24),
        ]

    def test_slow_rungs_get_fewer_sentences(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ladder_clock, "_PILOT", 0.0)
        monkeypatch.setattr(ladder_clock, "_PATIENCE", 0.0)
        monkeypatch.setattr(ladder_clock, "_REPEAT", 1e-9)
        assert {row.figure.n for row in climb(folder, {0}).rows if row.regime == "many"} == {4}

    def test_the_table_has_a_line_a_rung(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        ladder_report.show(climb(folder, {0}))
        out = capsys.readouterr().out
        assert "the direct network's work, whatever a plan saves; ceiling: none measured" in out
        heading, line = out.splitlines()[-2:]
        assert heading.split()[:3] == ["rung", "name", "n"]
        assert line.split()[:3] == ["0", "cpu", "40"]

    def test_a_wrong_rung_is_named_and_not_timed_and_the_next_one_is(
        self, gpu: None, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(fake_cupy, "_linear", lambda x, weight, bias, y, *sizes: y.fill(1))
        report = climb(folder, {0, 1})
        assert {row.rung for row in report.rows} == {0}
        assert list(report.failed) == ["rung 1 (gpu)"]
        assert "with embeddings as input gate differs from the goldens" in report.failed["rung 1 (gpu)"]
        ladder_report.show(report)
        assert "rung 1 (gpu) is not timed: with embeddings" in capsys.readouterr().out

    def test_a_peer_that_fails_before_it_begins_costs_no_rung(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none(*arguments: Any) -> Any:
            raise RuntimeError("CUDA out of memory")
            yield

        monkeypatch.setattr(ladder, "require_device", lambda index: None)
        monkeypatch.setattr(ladder, "peers", none)
        report = ladder.run(Job(folder, frozenset({0}), 40, 2, peer=True), lambda message: None)
        assert {row.rung for row in report.rows} == {0}
        assert report.failed == {"the peer": "CUDA out of memory"}

    def test_logits_of_submitted_batches_are_checked(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = ladder.submitted

        def wrong(*arguments: Any) -> Predictions:
            found = right(*arguments)
            return replace(found, logits=found.logits + np.float32(1))

        monkeypatch.setattr(ladder, "submitted", wrong)
        assert "the logits differ from the goldens" in climb(folder, {0}).failed["rung 0 (cpu)"]

    @pytest.mark.parametrize("call", [1, 4, 6])
    def test_each_timed_run_is_checked(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, call: int
    ) -> None:
        right, calls = measure.predict, 0

        def sometimes_wrong(*arguments: Any) -> Predictions:
            nonlocal calls
            calls += 1
            found = right(*arguments)
            return replace(found, logits=found.logits + np.float32(calls == call))

        monkeypatch.setattr(measure, "predict", sometimes_wrong)
        report = climb(folder, {0})
        assert calls == call
        assert (report.rows, len(report.failed)) == ([], 1)


class TestTraffic:
    """Bytes of a sentence by hand: 6 tokens of 16 values, widths 2 and 3, 8 filters each."""

    HEAD = 4 * (  # for one sentence; inputs, weights, biases, outputs of each product; then the mixture
        (16 + 17 * 4 + 4) + (16 + 17 * 32 + 32) + (32 + 4 + 8) + (8 + 9 * 8 + 8) + (8 + 9 * 2 + 2)
    )
    WEIGHTS = 4 * (2 + 3) * 16 * 8

    @pytest.mark.parametrize(
        ("number", "kind", "values"),
        [
            (3, "embeddings", 96 + 4 * (6 + 6) * 8 + 16),
            (3, "ids", 3 * 96 + 4 * (6 + 6) * 8 + 16),
            (6, "ids", 3 * 96 + 2 * (5 * 2 + 4 * 3) * 16 + 4 * (5 + 4) * 8 + 16),
            (7, "embeddings", 3 * 96 + 2 * (5 * 2 + 4 * 3) * 16 + 16),
            (8, "embeddings", 3 * 96 + 16),
            (8, "ids", 96 + 16),
        ],
    )
    def test_activations(self, gpu: None, folder: Path, number: int, kind: str, values: int) -> None:
        (rung,) = rungs(folder, frozenset({number}), "auto")
        found = bytes_each(rung.config.model, rung.plan, kind, 1)
        assert found == self.HEAD + self.WEIGHTS + 4 * values

    def test_toom_cook_moves_transformed_sentences_and_products(self, gpu: None, folder: Path) -> None:
        (rung,) = rungs(folder, frozenset({10}), "auto")
        spec = rung.config.model
        points = toom_cook(6, spec.widths).products
        one, many = (bytes_each(spec, rung.plan, "ids", batch) for batch in (1, 1 << 20))
        assert one - many > 0.99 * 4 * points * 16 * 16  # weights, once a batch
        assert many > 4 * (96 + 2 * points * (16 + 16) + 16)


class TestCommand:
    def bench(self, *arguments: object) -> Any:
        return command.main(
            ["--sentences", "40", "--repeats", "1", *map(str, arguments)], standalone_mode=False
        )

    def test_it_writes_figures(
        self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "ladder.json"
        self.bench("--ladder", folder, "--rungs", "0", "--json", path)
        document = json.loads(path.read_text())
        assert (document["suite"], document["ceiling"], document["machine"]["gpu"]) == ("ladder", None, None)
        assert {row["rung"] for row in document["rows"]} == {0}
        assert "rung" in capsys.readouterr().out

    def test_a_failed_rung_is_the_exit_status(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*arguments: Any, **more: Any) -> Any:
            raise DeviceError("broken")

        monkeypatch.setattr(ladder, "engine_for", broken)
        path = tmp_path / "ladder.json"
        with pytest.raises(LadderFailed, match=r"not timed: rung 0 \(cpu\)") as failure:
            self.bench("--ladder", folder, "--rungs", "0", "--json", path)
        assert failure.value.exit_code == 1
        assert json.loads(path.read_text())["failed"] == {"rung 0 (cpu)": "broken"}

    @pytest.mark.parametrize("option", ["--input", "--precision", "--batch", "--streams"])
    def test_what_the_rungs_say_is_refused(self, folder: Path, option: str) -> None:
        value = {"--input": "a.txt", "--precision": "fp32"}.get(option, 2)
        with pytest.raises(
            UsageError, match=rf"{option} {value}: with --ladder the rungs say that themselves"
        ):
            self.bench("--ladder", folder, option, value)

    @pytest.mark.parametrize("option", ["--rungs", "--picture"])
    def test_what_belongs_to_a_ladder_alone(self, option: str) -> None:
        with pytest.raises(UsageError, match=f"{option} belongs to a ladder; say --ladder too"):
            self.bench(option, "1")

    def test_the_packaged_ladder_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        jobs: list[Job] = []
        monkeypatch.setattr(ladder, "run", lambda job, tell: jobs.append(job) or sys.exit(0))
        with pytest.raises(SystemExit):
            self.bench("--ladder", "--rungs", "4,6-7")
        assert jobs == [Job(PACKAGED, frozenset({4, 6, 7}), 40, 1)]


def test_ceilings_by_our_own_product_where_there_is_no_cublas(gpu: None) -> None:
    found = measure_ceiling(0, 8, 1 << 12)
    assert (found.program, found.size) == ("accel's sgemm", 8)
    assert found.flop > 0
    assert found.memory > 0


def test_a_product_that_is_not_exact_is_no_ceiling(gpu: None) -> None:
    module = sys.modules["cupy"]
    module.matmul = lambda a, b, out: out.fill(1) or out  # type: ignore[attr-defined]
    with pytest.raises(AccelError, match=r"no ceiling, because cuBLAS is not exact to fp32 here"):
        measure_ceiling(0, 8, 1 << 12)
