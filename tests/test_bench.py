"""accel bench: what it draws, counts, checks and reports. No test asserts how long anything takes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pytest
from conftest import Accel, needs_gpu
from spoiled import spoil_prediction

from accel_cli import provenance
from accel_cli.batches import TokenBatch
from accel_cli.bench import check, measure, suite, work
from accel_cli.bench.report import Row
from accel_cli.commands.bench import command
from accel_cli.engines import open as engines
from accel_cli.engines.base import Plan
from accel_cli.errors import AccelError, InputError
from accel_cli.model.config import Config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.weights import Layer, Weights
from accel_cli.pipeline import Pipeline, Summary

FOLDED = Plan("cpu", "fp32", "folded", "folded", 512, 1)


def _bench(*arguments: str) -> Any:
    """The command in this process."""
    return command.main(["--device", "cpu", "--repeats", "3", *arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def figures(tiny_path: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON of one run on the tiny network."""
    path = tmp_path_factory.mktemp("json") / "tiny-cpu.json"
    _bench("--config", str(tiny_path), "--sentences", "50", "--batch", "16", "--json", str(path))
    document: dict[str, Any] = json.loads(path.read_text())
    return document


class TestCheck:
    @pytest.fixture(autouse=True)
    def _no_timing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def timed(*arguments: object) -> None:
            raise AssertionError("timed before the result was right")

        monkeypatch.setattr(measure, "in_turns", timed)

    def test_an_engine_with_other_weights_is_not_timed(
        self, tiny: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def wrong(spec: Any) -> Weights:
            weights = obtain_weights(spec)
            *hidden, last = weights.fully_connected
            return replace(
                weights, fully_connected=(*hidden, Layer(last.weight, last.bias + np.float32(0.01)))
            )

        monkeypatch.setattr(engines, "obtain_weights", wrong)
        monkeypatch.setattr(measure, "stages", lambda *_: pytest.fail("timed before the result was right"))
        with pytest.raises(AccelError, match=r"not timed.*differ by more than.*accel validate") as failure:
            suite.run(tiny, "cpu", suite.Job(20, 1), lambda message: None)
        assert failure.value.exit_code == 1
        assert "sentences/s" not in capsys.readouterr().out

    @pytest.mark.parametrize("call", [2, 3])  # ids, text; the first call is the check of the engine
    def test_each_way_is_checked_itself(
        self, tiny: Config, monkeypatch: pytest.MonkeyPatch, call: int
    ) -> None:
        calls = spoil_prediction(monkeypatch, call)
        with pytest.raises(AccelError, match="not timed"):
            suite.run(tiny, "cpu", suite.Job(20, 1), lambda message: None)
        assert len(calls) == call

    def test_rows_that_are_lost_on_the_way_to_the_file(
        self, tiny: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = Pipeline.run

        def forgetful(pipeline: Pipeline, sources: Any) -> Summary:
            return replace(right(pipeline, sources), sentences=19)

        monkeypatch.setattr(Pipeline, "run", forgetful)
        with pytest.raises(AccelError, match="20 lines gave 19 rows"):
            suite.run(tiny, "cpu", suite.Job(20, 1), lambda message: None)

    def test_a_large_network_is_checked_on_fewer_sentences(
        self, tiny: Config, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        weights = obtain_weights(tiny.model)
        batch = TokenBatch.from_rows(np.ones((50, 9), dtype=np.int32))
        assert len(check.truth(tiny.model, weights, FOLDED, batch)) == 32
        monkeypatch.setattr(check, "_FLOP", 1.0)
        assert len(check.truth(tiny.model, weights, FOLDED, batch)) == 4
        assert len(check.truth(tiny.model, weights, FOLDED, batch.rows(0, 2))) == 2

    def test_nan_fails(self) -> None:
        truth = check.Truth(np.zeros((1, 2)))
        with pytest.raises(AccelError, match="not timed"):
            truth.error("this", np.full((1, 2), np.nan, dtype=np.float32), "fp32")


class TestReport:
    def test_every_row_says_what_it_is(self, figures: dict[str, Any]) -> None:
        found = [(row["clock"], row["input"], row["n"], row["warm"]) for row in figures["rows"]]
        assert found == [
            ("host", "text", 32, False),
            ("host", "ids", 50, True),
            ("host", "text", 50, True),
            ("file", "text", 50, True),
        ]
        for row in figures["rows"]:
            assert f"{row['clock']}/{row['input']}" in figures["clocks"]
            assert 0 <= row["max_error"] < 1e-4
            assert (row["program"], row["precision"], row["batch"]) == ("accel", "fp32", 16)
            assert {"device", "convolution", "experts", "streams"} <= set(row)
            assert "batch=16" in row["plan"]

    def test_rates_follow_from_the_repeats(self, figures: dict[str, Any]) -> None:
        for row in figures["rows"]:
            assert len(row["repeats"]) == len(row["cpu_repeats"]) == (3 if row["warm"] else 1)
            assert row["sentences_per_s"] == pytest.approx(row["n"] / median(row["repeats"]), rel=1e-4)
            assert row["fastest"] == pytest.approx(row["n"] / min(row["repeats"]), rel=1e-4)
            assert row["slowest"] == pytest.approx(row["n"] / max(row["repeats"]), rel=1e-4)
            assert row["us_per_sentence"] == pytest.approx(1e6 / row["sentences_per_s"], rel=1e-4)

    def test_stages_share_the_whole(self, figures: dict[str, Any]) -> None:
        stages = ["features", "gate", "experts", "fc.0", "logits"]
        assert [stage["stage"] for stage in figures["stages"]] == stages
        assert sum(stage["percent"] for stage in figures["stages"]) == pytest.approx(100, abs=0.01)
        assert all(len(stage["repeats"]) == 3 and stage["bytes"] > 0 for stage in figures["stages"])

    def test_where_and_when_it_was_measured(self, figures: dict[str, Any]) -> None:
        assert figures["suite"] == "tiny"
        assert figures["device"] == "cpu"
        assert figures["machine"]["cpu"]
        assert figures["machine"]["cores"] >= 1
        assert figures["machine"]["gpu"] is None
        assert {"accel", "python", "numpy", "cupy", "driver", "compiler"} <= set(figures["versions"])
        assert figures["date"].endswith("+00:00")
        assert figures["sentences"]["count"] == 50
        assert figures["sentences"]["tokens"] >= 200
        assert figures["sentences"]["bytes"] > figures["sentences"]["tokens"]
        assert figures["checked_sentences"] == 16  # no more than one batch
        assert "commit" in figures

    def test_a_busy_machine_is_said(self) -> None:
        row = Row("accel", FOLDED, "host", "ids", 9, True, measure.Timing((1.0, 1.1, 1.4)), 0.0, work.Work())
        noisy = replace(row, timing=measure.Timing((1.0, 1.1, 2.3)))
        (warning,) = suite._noise([row, noisy])
        assert "accel, host ids, differ by a factor of 2.3" in warning

    def test_no_git_is_no_failure(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("ACCEL_COMMIT", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert provenance.commit() is None
        monkeypatch.setenv("ACCEL_COMMIT", "abc")
        assert provenance.commit() == "abc"

    @pytest.mark.skipif(shutil.which("git") is None, reason="no git")
    def test_the_commit_of_a_repository_around_the_installation_is_not_ours(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        package = tmp_path / "site-packages" / "accel_cli"
        package.mkdir(parents=True)
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for arguments in (["init", "-q"], [*name, "commit", "-q", "--allow-empty", "-m", "theirs"]):
            subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
        monkeypatch.delenv("ACCEL_COMMIT", raising=False)
        monkeypatch.setattr(provenance, "__file__", str(package / "provenance.py"))
        assert provenance.commit() is None


class TestCommand:
    def test_both_tables_are_plain_in_a_pipe(self, accel: Accel) -> None:
        done = accel("bench", "--device", "cpu", "--sentences", "40", "--repeats", "1")
        assert done.returncode == 0, done.stderr
        out = done.stdout.decode()
        assert out.isascii()
        assert "sentences/s" in out
        assert "max error" in out
        assert "features" in out
        assert all(len(line) <= 160 for line in out.splitlines())
        assert b"checked 32 sentences" in done.stderr

    def test_options_have_variables(self, accel_here: Accel, tmp_path: Path) -> None:
        text, path = tmp_path / "in.txt", tmp_path / "out.json"
        text.write_bytes(b"a good film\n\nnot good\n")
        done = accel_here(
            "bench",
            environment={
                "ACCEL_DEVICE": "cpu",
                "ACCEL_SENTENCES": "2",
                "ACCEL_REPEATS": "2",
                "ACCEL_BENCH_INPUT": str(text),
                "ACCEL_JSON": str(path),
            },
        )
        assert done.returncode == 0, done.stderr
        document = json.loads(path.read_text())
        assert document["sentences"] == {"origin": str(text), "count": 2, "tokens": 10, "bytes": 13}
        assert len(document["rows"][1]["repeats"]) == 2

    def test_words_may_all_be_alike(self, accel_here: Accel) -> None:
        done = accel_here(
            "bench",
            "--device",
            "cpu",
            "--sentences",
            "5",
            "--repeats",
            "1",
            "--words",
            "uniform",
            "--json",
            "-",
        )
        assert "uniform law" in json.loads(done.stdout)["sentences"]["origin"]

    @pytest.mark.parametrize(
        "other", [("--input", "a.txt"), ("--suite", "text"), ("--ladder",), ("--serve",)]
    )
    def test_a_law_that_would_not_be_heeded(self, tiny_path: Path, other: tuple[str, ...]) -> None:
        with pytest.raises(AccelError, match=r"--words uniform: (with|none are drawn)"):
            _bench("--config", str(tiny_path), "--words", "uniform", *other)

    def test_json_on_stdout_stands_alone(self, accel_here: Accel) -> None:
        done = accel_here("bench", "--device", "cpu", "--sentences", "5", "--repeats", "1", "--json", "-")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["suite"] == "tiny"

    def test_missing_input(self, accel_here: Accel) -> None:
        done = accel_here("bench", "--device", "cpu", "--input", "/nowhere/at-all.txt")
        assert done.returncode == 1
        assert b"cannot read /nowhere/at-all.txt" in done.stderr
        assert done.stdout == b""

    def test_no_place_for_the_json_is_said_before_measuring(
        self, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("accel_cli.commands.bench.run", lambda *_: pytest.fail("measured first"))
        with pytest.raises(AccelError, match="/nowhere"):
            _bench("--config", str(tiny_path), "--json", "/nowhere/at-all.json")

    def test_a_failed_run_leaves_the_json_as_it_was(self, tiny_path: Path, tmp_path: Path) -> None:
        path = tmp_path / "a.json"
        path.write_text("before")
        options = ("--json", str(path), "--overwrite", "--input", "/nowhere/at-all.txt")
        with pytest.raises(InputError):
            _bench("--config", str(tiny_path), *options)
        assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.json", "before")]

    def test_figures_that_exist_are_not_replaced_unasked(
        self, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("accel_cli.commands.bench.run", lambda *_: pytest.fail("measured first"))
        (tmp_path / "a.json").write_text("before")
        with pytest.raises(AccelError, match="exists already; say --overwrite"):
            _bench("--config", str(tiny_path), "--json", str(tmp_path / "a.json"))
        with pytest.raises(AccelError, match="the name of an output is empty"):
            _bench("--config", str(tiny_path), "--json", "")

    def test_no_torch(self, tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(AccelError, match="pip install torch"):
            _bench("--config", str(tiny_path), "--peer", "pytorch")

    @pytest.mark.parametrize("arguments", [("--repeats", "0"), ("--sentences", "0"), ("--peer", "abacus")])
    def test_senseless_options(self, arguments: tuple[str, str]) -> None:
        with pytest.raises(click.UsageError):
            _bench(*arguments)


@pytest.mark.gpu
@needs_gpu
def test_the_device_clock_on_a_gpu(tiny: Config) -> None:
    found = suite.run(tiny, "cuda", suite.Job(50, 2), lambda message: None).as_json()
    device = next(row for row in found["rows"] if row["clock"] == "device")
    assert (device["input"], device["n"], len(device["repeats"])) == ("ids", 50, 2)
    assert found["machine"]["gpu"]["name"]
    assert found["versions"]["compiler"].startswith("NVRTC")
