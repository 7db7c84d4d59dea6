"""accel bench --ladder: each rung is checked before it is timed, what is reported, and the command."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import fake_cupy
import ladders
import numpy as np
import pytest
from conftest import needs_gpu
from spoiled import spoil_prediction

from accel_cli.batches import Predictions
from accel_cli.bench import ladder, ladder_clock, ladder_report
from accel_cli.bench.ladder import Job
from accel_cli.bench.ladder_clock import Subject
from accel_cli.bench.ladder_report import LadderReport
from accel_cli.bench.rungs import PACKAGED
from accel_cli.commands.bench import command
from accel_cli.commands.bench_ladder import LadderFailed
from accel_cli.engines.base import Plan
from accel_cli.errors import DeviceError, OutputError, UsageError
from accel_cli.validation import TOLERANCE


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ladders.make_ladder(tmp_path_factory.mktemp("climbed"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    ladders.fake_gpu(monkeypatch)


def climb(folder: Path, chosen: set[int], count: int = 40) -> LadderReport:
    return ladder.run(Job(folder, frozenset(chosen), count, 2), lambda message: None)


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

    @pytest.mark.extras
    def test_a_rung_on_tensor_cores_is_measured_by_their_ceiling(self, gpu: None, folder: Path) -> None:
        report = climb(folder, {14})
        assert report.failed == {}
        assert all(1e-6 < row.figure.max_error < TOLERANCE["fp16"] for row in report.rows)
        assert {report.row_json(row)["percent_of_ceiling"] for row in report.rows} == {None}

    @pytest.mark.extras
    def test_a_folded_rung_is_measured_by_its_ids(
        self, gpu: None, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        report = climb(folder, {0, 18})
        assert report.failed == {}
        folded = [row for row in report.rows if row.rung == 18]
        assert [row.place for row in folded] == [("ids", "cold"), ("ids", "many")]
        assert report.row_json(folded[1])["x_first"] is not None
        ladder_report.show(report)
        line = next(line for line in capsys.readouterr().out.splitlines() if "folded" in line)
        assert line.split()[:3] == ["18", "folded", "-"]

    @pytest.mark.gpu
    @needs_gpu
    def test_every_rung_is_right_on_a_gpu(self, folder: Path) -> None:
        report = climb(folder, set(ladders.WHOLE))
        assert report.failed == {}
        assert {row.rung for row in report.rows} == ladders.WHOLE
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

    def test_repeats_end_when_the_time_is_over_but_not_before_three(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ladder_clock, "_BUDGET", {"many": 0.0, "one batch": 0.0})
        for wanted, made in ((10, 3), (2, 2)):
            report = ladder.run(Job(folder, frozenset({0}), 20, wanted), lambda message: None)
            assert {len(row.figure.timing.seconds) for row in report.rows if row.regime == "many"} == {made}

    def test_a_graph_is_warm_in_every_slot_before_the_clock_starts(self) -> None:
        ran: list[list[int]] = []  # the sizes of the batches of each run
        plan = Plan("cuda:0", "fp32", "implicit", "separate", 8, 2, gemm="sgemm", launch="graph")
        inputs = SimpleNamespace(
            starts=lambda count: range(0, 100, count),
            batches=lambda kind, start, count, size, copied: [
                min(size, count - i) for i in range(0, count, size)
            ],
            error=lambda start, found, tolerance: 0.5,
        )
        subject = Subject(9, "streams", "accel", plan, lambda batches: ran.append(batches) or batches, 1)
        clock = ladder_clock.Clock(SimpleNamespace(), inputs, subject, 1)
        assert clock._warm_up("ids", 8) == 0.5
        assert (
            ran == [[8]] * 5
        )  # of each slot one that is computed, one that is captured; then the first again
        assert clock._warm_up("ids", 64) == 0.0  # batches of the same size
        assert len(ran) == 5
        clock._warm_up("ids", 3)
        assert ran[5:] == [[3]] * 5
        clock._warm_up("embeddings", 64)
        assert ran[10:] == [[8] * 5]

    def test_pytorch_may_be_off_by_twice_as_much_as_a_rung(self) -> None:
        plan = Plan("cuda:0", "fp16", "direct", "separate", 8, 1)
        rung, peer = (
            Subject(number, "fp16", "", plan, lambda batches: np.zeros(0), 1) for number in (14, None)
        )
        assert (rung.tolerance, peer.tolerance) == (5e-3, 1e-2)

    def test_what_is_known_is_handed_on_after_each_rung(
        self, folder: Path, gpu: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept: list[tuple[bool, set[int | None]]] = []
        job = Job(folder, frozenset({0, 2}), 20, 1)
        report = ladder.run(
            job,
            lambda message: None,
            lambda found: kept.append((found.complete, {r.rung for r in found.rows})),
        )
        assert kept == [(False, {0}), (False, {0, 2})]
        assert report.complete
        assert report.as_json()["complete"]

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
        assert report.failed == {"the peer in fp32": "CUDA out of memory"}

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
        calls = spoil_prediction(monkeypatch, call)
        report = climb(folder, {0})
        assert len(calls) == call
        assert (report.rows, len(report.failed)) == ([], 1)


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

    @pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
    def test_a_climb_that_is_cut_short_leaves_what_it_measured(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: type[BaseException]
    ) -> None:
        def cut_short(job: Job, tell: Any, keep: Any) -> LadderReport:
            keep(replace(whole, complete=False))
            raise ending

        whole = climb(folder, {0})
        monkeypatch.setattr(ladder, "run", cut_short)
        path = tmp_path / "ladder.json"
        with pytest.raises((ending, click.Abort)):
            self.bench("--ladder", folder, "--json", path)
        document = json.loads(path.read_text())
        assert not document["complete"]
        assert {row["rung"] for row in document["rows"]} == {0}
        assert [entry.name for entry in tmp_path.iterdir()] == ["ladder.json"]

    def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
        self, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ladder, "run", lambda *values: pytest.fail("measured"))
        (tmp_path / "there.json").write_text("{}")
        with pytest.raises(OutputError, match=r"there.json exists already; say --overwrite"):
            self.bench("--ladder", folder, "--json", tmp_path / "there.json")
        with pytest.raises(OutputError, match=r"cannot write into .*none; name a file in another folder"):
            self.bench("--ladder", folder, "--json", tmp_path / "none" / "ladder.json")

    def test_figures_go_to_stdout_once(self, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self.bench("--ladder", folder, "--rungs", "0", "--json", "-")
        assert json.loads(capfdbinary.readouterr().out)["complete"]

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

    @pytest.mark.parametrize(
        "option", ["--input", "--precision", "--batch", "--streams", "--tokens", "--config"]
    )
    def test_what_the_rungs_say_is_refused(self, folder: Path, option: str) -> None:
        value = {"--input": "a.txt", "--precision": "fp32", "--config": "school"}.get(option, 2)
        with pytest.raises(
            UsageError, match=rf"{option} {value}: with --ladder the rungs say all else themselves"
        ):
            self.bench("--ladder", folder, option, value)

    def test_a_peer_that_takes_no_embeddings_is_refused(self, folder: Path) -> None:
        with pytest.raises(UsageError, match="--peer torch-folded: rungs are given embeddings too"):
            self.bench("--ladder", folder, "--peer", "torch-folded")

    @pytest.mark.parametrize("option", ["--rungs", "--picture"])
    def test_what_belongs_to_a_ladder_alone(self, option: str) -> None:
        with pytest.raises(UsageError, match=f"{option} 1: heeded only with --ladder; say that too"):
            self.bench(option, "1")

    def test_the_packaged_ladder_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        jobs: list[Job] = []
        monkeypatch.setattr(ladder, "run", lambda job, tell, keep: jobs.append(job) or sys.exit(0))
        with pytest.raises(SystemExit):
            self.bench("--ladder", "--rungs", "4,6-7")
        assert jobs == [Job(PACKAGED, frozenset({4, 6, 7}), 40, 1)]
