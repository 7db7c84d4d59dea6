"""`accel bench --suite scaling`: one device beside several."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import fake_cupy
import pytest
from conftest import needs_gpu
from test_docs_tables import docs

from accel_cli.bench import scaling
from accel_cli.bench.scaling_clock import Clock, Steady
from accel_cli.bench.scaling_picture import scaling_drawn
from accel_cli.bench.scaling_report import Repeat, Row
from accel_cli.bench.text_files import TextFile
from accel_cli.commands import cli
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config
from accel_cli.pipeline import Summary
from accel_cli.shards.shard import Shard


class Times:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def clocked(workers: int, ends: list[tuple[int, int, float]]) -> Clock:
    """A clock that heard of (worker, shard, when): each shard had 100 sentences and took half a second."""
    times = Times()
    clock = Clock(workers, times)
    for worker, number, times.now in ends:
        clock.finished(Shard(number, "text.txt"), Summary(sentences=100, seconds=0.5), worker)
    return clock


def test_steady_is_from_the_last_first_shard_to_the_first_idle_worker() -> None:
    clock = clocked(
        2,
        [
            (0, 0, 5.0),
            (1, 1, 6.0),  # from here
            (0, 2, 6.25),  # half of it since then
            (1, 3, 6.5),
            (0, 4, 7.0),
            (1, 5, 7.25),
            (0, 6, 7.5),  # to here: that worker has no shard any more
            (1, 7, 7.9),  # a fifth of it until then
        ],
    )
    assert clock.steady() == Steady(1.5, 50 + 100 * 4 + 20, pytest.approx(100 * 2.35 / 3))


def test_workers_may_take_shards_in_any_order_and_tell_of_them_late() -> None:
    times = Times()
    clock = Clock(2, times)
    times.now = 20.0
    for worker, number, ended in (("a", 0, 5.0), ("a", 1, 5.5), ("b", 2, 6.0), ("b", 4, 7.0), ("a", 3, 8.0)):
        clock.finished(Shard(number, "text.txt"), Summary(sentences=100, seconds=0.5), worker, ended)
    assert clock.steady() == Steady(1.0, 100, pytest.approx(25))


@pytest.mark.parametrize(
    "ends", [[], [(0, 0, 1.0), (0, 1, 2.0)], [(0, 0, 1.0), (0, 2, 2.0), (1, 1, 3.0), (1, 3, 4.0)]]
)
def test_no_steady_state(ends: list[tuple[int, int, float]]) -> None:
    assert clocked(2, ends).steady() is None


def test_start_is_that_of_the_last_worker() -> None:
    times = Times()
    clock = Clock(2, times)
    for times.now in (1.0, 3.0):
        clock.loaded("plan")
    assert clock.start == 3


def test_a_row_is_compared_repeat_by_repeat() -> None:
    one = (Repeat(10, 1, 100, 90), Repeat(12, 1, 80, 90), Repeat(11, 1, 90, 90))
    two = (Repeat(6, 1, 190, 90), Repeat(6, 1, 160, 90), Repeat(6, 1, 144, 90))
    found = Row("processes", ("cuda:0", "cuda:1"), 2, two, one).as_json(TextFile(Path(), 1000, 5000))
    assert (found["steady_x_one"], found["scaling_per_device"]) == (1.9, 0.95)
    assert found["x_one"] == pytest.approx(11 / 6, rel=1e-5)
    assert (found["seconds"], found["steady_sentences_per_s"], found["devices"]) == (6, 160, "cuda:0, cuda:1")


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        (["cuda:0", "cuda:1"], ["cuda:0", "cuda:0,cuda:1"]),
        (["cuda:0", "cuda:0", "cuda:1"], ["cuda:0,cuda:0", "cuda:0,cuda:0,cuda:1"]),
        ([f"cuda:{n}" for n in range(3)], ["cuda:0", "cuda:0,cuda:1", "cuda:0,cuda:1,cuda:2"]),
        (["cpu", "cpu"], ["cpu", "cpu,cpu"]),
    ],
)
def test_fleets(
    devices: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scaling, "find_spec", lambda name: None)
    assert [",".join(fleet.devices) for fleet in scaling._fleets(tmp_path, devices)] == found


@pytest.mark.parametrize(
    ("gpus", "engine", "devices"), [(2, "Ray", "cuda:0,cuda:1"), (3, "processes", "cuda:0,cuda:0,cuda:1")]
)
def test_ray_takes_part_where_it_is_and_all_gpus_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpus: int, engine: str, devices: str
) -> None:
    module = fake_cupy.module()
    module.cuda.runtime.getDeviceCount = lambda: gpus
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(scaling, "find_spec", lambda name: True)
    *_, last = scaling._fleets(tmp_path, ["cuda:0", "cuda:0", "cuda:1"])
    assert (last.engine, ",".join(last.devices), last.count) == (engine, devices, 2)


def test_parts_must_be_the_same(tmp_path: Path) -> None:
    def fleet(name: str, *parts: str) -> scaling._Fleet:
        (tmp_path / name).mkdir()
        for number, rows in enumerate(parts):
            (tmp_path / name / f"part-{number}").write_text(rows)
        return scaling._Fleet(name, ("cpu",), 1, tmp_path / name)

    one = fleet("one", "good\t0.9\n", "bad\t0.8\n")
    scaling._check_same(fleet("same", "good\t0.9\n", "bad\t0.8\n"), one, exact=True)
    near = fleet("near", "good\t0.9\n", "bad\t0.7\n")
    scaling._check_same(near, one, exact=False)
    with pytest.raises(
        AccelError, match=r"not timed, because part-1 by near on cpu differs from that by one"
    ):
        scaling._check_same(near, one, exact=True)
    for other in (fleet("swapped", "bad\t0.8\n", "good\t0.9\n"), fleet("short", "good\t0.9\n", "")):
        with pytest.raises(AccelError, match="differs"):
            scaling._check_same(other, one, exact=False)
    with pytest.raises(AccelError, match="few on cpu wrote other parts than one on cpu"):
        scaling._check_same(fleet("few", "good\t0.9\n"), one, exact=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--suite", "scaling", "--device", "cpu"),
            r"--device cpu: scaling is that of several devices; .*, or say --device cpu --workers 2",
        ),
        (("--suite", "scaling", "--stages"), "--stages: with --suite scaling whole folders are written"),
        (("--suite", "scaling", "--serve"), "--suite scaling: with --serve only a server is measured"),
        (("--shard-size", "1M"), "--shard-size 1048576: heeded only with --suite scaling; say "),
        (("--device", "cuda:0,1"), "--device cuda:0,1: only --suite scaling takes several; say one"),
        (
            (
                "--suite",
                "scaling",
                "--device",
                "cpu",
                "--workers",
                "2",
                "--bytes",
                "9K",
                "--shard-size",
                "4K",
            ),
            r"--bytes 9216 --shard-size 4096: \d shards for 2 workers have no steady state; take at least 4",
        ),
    ],
)
def test_what_does_not_go_together(
    arguments: tuple[str, ...], said: str, tiny_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))
    with pytest.raises(UsageError, match=said):
        cli.main(["bench", "--sentences", "20", *arguments], standalone_mode=False)


@pytest.mark.extras
def test_for_real(tiny_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))
    size = ("--bytes", "400K", "--shard-size", "8K", "--batch", "64", "--streams", "1")
    line = ("bench", "--suite", "scaling", "--device", "cpu", "--workers", "2", "--repeats", "2", *size)
    cli.main([*line, "--sentences", "50", "--json", str(tmp_path / "scaling.json")], standalone_mode=False)
    found = json.loads((tmp_path / "scaling.json").read_bytes())
    assert [(row["devices"], row["count"]) for row in found["rows"]] == [("cpu", 1), ("cpu, cpu", 2)]
    assert all(len(row["repeats"]) == len(row["steady_repeats"]) == 2 for row in found["rows"])
    assert {"machine", "versions", "commit", "clock", "file_system"} <= set(found)
    table = docs.render("<!-- scaling scaling.json -->\n<!-- end -->", tmp_path)
    assert re.search(r"\n\| processes \| cpu, cpu \| ", table)


@pytest.mark.parametrize(("reason", "remedy"), [(None, "name them, as cuda:0,1"), ("no driver", "no driver")])
def test_without_a_gpu_it_says_why(
    reason: str | None, remedy: str, tiny: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaling, "missing", lambda: reason)
    with pytest.raises(UsageError, match=f"scaling is that of several devices; {remedy}.*, or say --device"):
        scaling.run(tiny, ["cpu"], scaling.Job(50, 1), print)


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    assert "\nNot measured yet.\n" in docs.render("<!-- scaling no.json -->\n<!-- end -->", tmp_path)


@pytest.mark.gpu
@needs_gpu
def test_two_workers_on_one_gpu_are_one_device(tiny: Config) -> None:
    with pytest.raises(UsageError, match="scaling is that of several devices"):
        scaling.run(tiny, ["cuda:0", "cuda:0"], scaling.Job(50, 1), print)


@pytest.mark.extras
def test_the_picture() -> None:
    pytest.importorskip("matplotlib")
    one, two = ((Repeat(10, 1, 100.0, 90),) * 2, (Repeat(6, 1, 190.0, 90),) * 2)
    text = TextFile(Path(), 1000, 5000)
    rows = [
        Row("processes", ("cuda:0",), 1, one, one).as_json(text),
        Row("processes", ("cuda:0", "cuda:1"), 2, two, one).as_json(text),
        Row("Ray", ("cuda:0", "cuda:1"), 2, one, one).as_json(text),
    ]
    document = {"config": "tiny", "machine": {"gpu": {"name": "a GPU"}}, "rows": rows}
    drawn = scaling_drawn([document, document], ".svg")
    assert drawn == scaling_drawn([document, document], ".svg")
    assert drawn.count(b"tiny, a GPU") == 2
    assert scaling_drawn([{**document, "machine": {}}], ".png").startswith(b"\x89PNG")
