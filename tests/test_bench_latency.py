"""`accel bench --suite latency`: one sentence at a time."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from conftest import Accel

from accel_cli.bench.latency_report import Row
from accel_cli.model.config import Config, load_config


def test_the_rows(accel_here: Accel, tmp_path: Path) -> None:
    path = tmp_path / "latency.json"
    words = ("--suite", "latency", "--device", "cpu", "--sentences", "40", "--json", path)
    done = accel_here("bench", *words)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"tiny: one sentence at a time")
    found = json.loads(path.read_text())
    assert {"machine", "versions", "commit", "date", "clock"} <= found.keys()
    assert (found["suite"], found["config"], found["device"]) == ("latency", "tiny", "cpu")
    assert [(row["program"], row["input"]) for row in found["rows"]] == [("accel", "ids"), ("accel", "text")]
    for row in found["rows"]:
        assert row["n"] == 40
        times = [row[f"{name}_us"] for name in ("fastest", "median", "p90", "p99", "slowest")]
        assert times[0] > 0
        assert times == sorted(times)
        assert row["max_error"] < 1e-5


def test_quantiles() -> None:
    row = Row("accel", "", "ids", [number / 1e6 for number in range(1, 102)], 0.0).as_json()
    assert (row["median_us"], row["p90_us"], row["p99_us"]) == (51, 91, 100)


@pytest.mark.parametrize("word", [("--repeats", "3")])
def test_what_is_not_heeded_is_refused(accel_here: Accel, word: tuple[str, ...]) -> None:
    done = accel_here("bench", "--suite", "latency", "--device", "cpu", *word)
    assert done.returncode == 2
    assert b"with --suite latency each sentence is asked for once" in done.stderr


@pytest.mark.extras
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_peer_is_asked_the_same(tiny_path: Path) -> None:
    from accel_cli.bench.latency import Job, run

    config: Config = load_config(tiny_path)
    rows = run(config, "cpu", Job(20, peer="torch"), lambda text: None).as_json()["rows"]
    assert [row["input"] for row in rows] == ["ids", "text", "ids"]
    assert rows[2]["program"].startswith("pytorch")
    assert rows[2]["max_error"] < 1e-5
