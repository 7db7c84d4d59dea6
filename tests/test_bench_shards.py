"""`accel bench --suite shards`: workers beside one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Accel

from accel_cli.bench import shards
from accel_cli.bench.shards_report import Row, ShardsReport, show
from accel_cli.commands import cli
from accel_cli.errors import AccelError, UsageError


def way(place: Path, name: str, *parts: str) -> shards._Way:
    """One that has run, into a folder if it has several parts."""
    made = shards._Way(name, (), place / name, folder=len(parts) > 1)
    if made.folder:
        made.output.mkdir()
        for number, rows in enumerate(parts):
            (made.output / f"part-{number:06d}.tsv").write_text(rows)
    else:
        made.output.write_text(parts[0])
    return made


def test_labels_must_be_the_same_scores_may_differ_in_the_last_digit(tmp_path: Path) -> None:
    first = way(tmp_path, "one", "good\t0.9000\nbad\t0.8000\n")
    shards._check(way(tmp_path, "two", "good\t0.9001\n", "bad\t0.8000\n"), first)
    with pytest.raises(AccelError, match=r"not timed, because row 2 differs: b'bad\\t0.8000\\n' by one, b''"):
        shards._check(way(tmp_path, "short", "good\t0.9001\n", ""), first)
    with pytest.raises(AccelError, match="row 1 differs"):
        shards._check(way(tmp_path, "other", "bad\t0.9000\n", "bad\t0.8000\n"), first)


def test_cost_is_the_middle_of_the_repeats_each_beside_its_own() -> None:
    assert Row("many", (11.0, 40.0, 10.5), (10.0, 20.0, 10.0)).cost == pytest.approx(10)


def test_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    found = ShardsReport("tiny", ("--device", "cpu"), "nowhere", 100, 5_000_000, [Row("one", (2.0,), (2.0,))])
    [row] = json.loads(found.text())["rows"]
    assert row == {
        "way": "one",
        "seconds": 2.0,
        "sentences_per_s": 50.0,
        "mb_per_s": 2.5,
        "cost_percent": 0.0,
        "repeats": [2.0],
    }
    show(found)
    assert "+0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workers", "3"), "--workers 3: heeded only with --suite scaling or --suite shards"),
        (("--suite", "shards", "--profile"), "--profile: with --suite shards whole runs are measured"),
        (("--suite", "shards", "--serve"), "--suite shards: with --serve only a server is measured"),
    ],
)
def test_what_does_not_go_together(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cli.main(["bench", *arguments], standalone_mode=False)


@pytest.mark.extras
def test_for_real(accel: Accel, tmp_path: Path) -> None:
    path = tmp_path / "shards.json"
    done = accel("bench", "--suite", "shards", "--sentences", "500", "--repeats", "2", "--json", path)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(path.read_bytes())
    assert [row["way"] for row in found["rows"]][:3] == [
        "one process, one file",
        "one process, a folder",
        "2 workers, a folder",
    ]
    assert all(len(row["repeats"]) == 2 for row in found["rows"])


@pytest.mark.extras
def test_a_run_that_fails_is_named(accel: Accel, tmp_path: Path) -> None:
    done = accel("bench", "--suite", "shards", "--sentences", "500", "--device", "cuda:99")
    assert done.returncode == 1
    assert b"one process, one file: accel run ended with 1: Error: --device cuda:99" in done.stderr
