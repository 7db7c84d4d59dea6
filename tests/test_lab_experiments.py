"""accel bench --suite memory|threads|banks|softmax|roofline, whole, without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import lab
import numpy as np
import pytest

from accel_cli.bench.lab import experiments, roofline, softmax
from accel_cli.bench.lab.experiments import EXPERIMENTS
from accel_cli.bench.lab.setting import Setting
from accel_cli.commands.bench import command
from accel_cli.cuda import device
from accel_cli.errors import AccelError, DeviceError, OutputError, UsageError
from accel_cli.kernels.base import Launch

SECONDS = 1e-3  # that a launch takes by the fake clock


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    module = lab.install(monkeypatch, tmp_path)
    monkeypatch.setattr(experiments, "Launcher", lab.NumpyLauncher)
    return module


def test_memory_has_a_row_for_each_size_direction_and_kind(tmp_path: Path) -> None:
    document = lab.measured("memory", tmp_path)
    assert (document["suite"], document["machine"]["gpu"]) == ("memory", "Fake H200")
    assert [(row["bytes"], row["direction"], row["memory"]) for row in document["rows"]] == [
        (size, direction, kind)
        for size in (4096, 16384)
        for direction in ("host to device", "device to host")
        for kind in ("pageable", "pinned")
    ]
    for row in document["rows"]:
        assert row["gb_per_s"] == pytest.approx(row["bytes"] / row["us"] / 1e3, rel=1e-4)
        assert len(row["repeats"]) == 2
        assert row["memory"] == "pinned" or row["x_pageable"] == 1


@pytest.mark.parametrize("method", ["copy_from_host_async", "copy_to_host_async"])
def test_a_copy_that_brings_nothing_is_not_timed(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(fake_streams.Pointer, method, lambda *_: None)
    with pytest.raises(
        AccelError, match=r"not timed, because a copy from .*, pageable, of 4096 bytes brings"
    ):
        experiments.run("memory", "cuda:0", 1, lambda message: None)


def test_threads_has_a_row_for_each_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = lab.measured("threads", tmp_path)
    assert document["copy_gb_per_s"] == 1000
    rows = document["rows"]
    assert [(row["order"], row["sectors"], row["percent_used"]) for row in rows] == [
        ("x fastest", 4, 100), ("x, 2 apart", 8, 50), ("x, 8 apart", 32, 12.5), ("x, 32 apart", 32, 12.5),
        ("y fastest", 32, 12.5),
    ]  # fmt: skip
    rate = 2 * 4 * 33 * 1030 / SECONDS
    for row in rows:
        assert row["gb_per_s"] == pytest.approx(rate / 1e9, rel=1e-5)
        assert row["percent_of_copy"] == pytest.approx(100 * rate / lab.COPY, rel=1e-5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "threads on Fake H200; rows_by_columns 33x1030, copy_gb_per_s 1000.0"
    assert lines[1].split()[:4] == ["order", "lanes", "apart,", "bytes"]
    assert lines[-1].split()[:6] == ["y", "fastest", "4,120", "32", "12.5", "1,000.0"]
    assert len(lines) == 2 + len(rows)


def test_banks_has_a_row_for_each_layout_and_number_of_rounds(tmp_path: Path) -> None:
    rows = lab.measured("banks", tmp_path)["rows"]
    found = [
        (row["layout"], row["rounds"], row["write_ways"], row["read_ways"], row["predicted_x_plain"])
        for row in rows
    ]
    assert found == [
        ("plain", 1, 1, 32, None), ("padded", 1, 1, 1, None), ("swizzled", 1, 1, 1, None),
        ("plain", 33, 1, 32, 1), ("padded", 33, 1, 1, 16.5), ("swizzled", 33, 1, 1, 16.5),
    ]  # fmt: skip
    assert {row["x_plain"] for row in rows} == {1.0}


def test_softmax_says_where_the_naive_one_overflows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = lab.measured("softmax", tmp_path)["rows"]
    assert [(row["length"], row["rows"], row["method"], row["passes"]) for row in rows] == [
        (length, 512 // length, method, passes)
        for length in (4, 64)
        for method, passes in (("naive", 3), ("safe", 4), ("online", 3))
    ]
    for row in rows:
        errors = [row[f"error_{level}"] for level in softmax.LEVELS]
        lost = [row[f"percent_not_finite_{level}"] for level in softmax.LEVELS]
        if row["method"] == "naive":
            assert (errors[1:], lost) == ([None, None], [0, 100, 100])
        else:
            assert max(errors) < 1e-5
            assert lost == [0, 0, 0]
        assert errors[0] < 1e-5
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.count("not finite") for line in lines[2:]) == 4
    assert lines[2].split()[-6:] == ["not", "finite", "not", "finite", "100.0", "100.0"]


def test_roofline_has_a_row_for_each_program(tmp_path: Path) -> None:
    document = lab.measured("roofline", tmp_path)
    # eight values in 16 rounds of two operations, 256 threads
    assert document["fma_tflop_per_s"] == pytest.approx(8 * 16 * 2 * 256 / SECONDS / 1e12, rel=1e-5)
    assert document["shared_gb_per_s"] == pytest.approx(4 * 32 * 2 * 256 / SECONDS / 1e9, rel=1e-5)
    assert document["ridge_flop_per_byte"] == pytest.approx(
        1e3 * document["fma_tflop_per_s"] / document["copy_gb_per_s"], rel=1e-5
    )
    flop, values = 2 * 40 * 33 * 20, 40 * 20 + 20 * 33 + 40 * 33
    assert document["flop_per_byte_at_best"] == pytest.approx(flop / (4 * values), rel=1e-5)
    rows = document["rows"]
    assert [(row["program"], row["flop_per_byte"], row["flop_per_shared_byte"]) for row in rows] == [
        ("naive", 0.25, None), ("tiled", 8, 0.25), ("1-D register tile", 16, 0.444444),
        ("2-D register tile", 32, 2), ("sgemm", 32, 2.66667),
    ]  # fmt: skip
    for row in rows:
        assert row["tflop_per_s"] == pytest.approx(flop / SECONDS / 1e12, rel=1e-5)
        assert row["max_error"] < 1e-5


class Wrong(lab.NumpyLauncher):
    """Every value that a kernel writes last is 3."""

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        super().__call__(launch, *arguments)
        written = [
            argument
            for parameter, argument in zip(launch.kernel.parameters, arguments, strict=True)
            if getattr(parameter, "written", False)
        ]
        fake_cupy.Stream.current().enqueue(lambda: written[0].__setitem__(..., 3.0))


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("threads", r"the copy with x fastest is wrong: 33990 of 33990 values differ"),
        ("banks", r"the plain transpose is wrong: 2800 of 2800 values differ"),
        ("softmax", r"naive softmax over 4 values ordinary is wrong: an error of"),
        ("roofline", r"the kernel of fma is wrong: 25[0-9] of 256 values differ"),
    ],
)
def test_what_is_wrong_is_not_timed(monkeypatch: pytest.MonkeyPatch, suite: str, message: str) -> None:
    monkeypatch.setattr(experiments, "Launcher", Wrong)
    monkeypatch.setattr(Setting, "timed", lambda *_: pytest.fail("it was timed"))
    with pytest.raises(AccelError, match=f"not timed, because {message}"):
        experiments.run(suite, "cuda:0", 1, lambda message: None)


def test_a_wrong_product_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "Launcher", Wrong)
    for name in ("fma_rate", "shared_rate"):
        monkeypatch.setattr(roofline, name, lambda setting: 1.0)
    with pytest.raises(AccelError, match=r"not timed, because naive is wrong: .* values differ by more than"):
        experiments.run("roofline", "cuda:0", 1, lambda message: None)


@pytest.mark.parametrize("method", [1, 2])
def test_a_safe_method_that_overflows_is_an_error(monkeypatch: pytest.MonkeyPatch, method: int) -> None:
    class Naive(lab.NumpyLauncher):
        def __call__(self, launch: Launch, *arguments: Any) -> None:
            defines = tuple((key, 0 if key == "METHOD" else value) for key, value in launch.defines)
            changed = Launch(launch.kernel, defines, launch.grid, launch.block)
            super().__call__(changed if dict(launch.defines)["METHOD"] == method else launch, *arguments)

    name = ["naive", "safe", "online"][method]
    monkeypatch.setattr(experiments, "Launcher", Naive)
    with pytest.raises(
        AccelError, match=f"{name} softmax over 4 values around 100 is wrong: 100 % not finite"
    ):
        experiments.run("softmax", "cuda:0", 1, lambda message: None)


@pytest.mark.parametrize("suite", EXPERIMENTS)
def test_a_cpu_is_refused(suite: str) -> None:
    with pytest.raises(UsageError, match=f"--device cpu: --suite {suite} needs a GPU; name one"):
        command.main(["--suite", suite, "--device", "cpu"], standalone_mode=False)


@pytest.mark.parametrize("suite", EXPERIMENTS)
@pytest.mark.parametrize(
    "given",
    [
        "--ladder",
        "--profile",
        "--batch 7",
        "--precision fp16",
        "--picture a.svg",
        "--config school",
        "--sentences 9",
    ],
)
def test_what_it_would_not_heed_is_refused(suite: str, given: str) -> None:
    with pytest.raises(UsageError, match=f"{given}.*: with --suite {suite} nothing but that experiment"):
        command.main(["--suite", suite, *given.split()], standalone_mode=False)


def test_a_missing_device_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "missing", lambda: "no driver")
    for name in ("auto", "cuda:0"):
        with pytest.raises(DeviceError, match="--suite threads needs a GPU, and no driver"):
            command.main(["--suite", "threads", "--device", name], standalone_mode=False)


def test_figures_that_are_there_stay(tmp_path: Path) -> None:
    path = tmp_path / "threads.json"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        lab.measured("threads", tmp_path)
    assert path.read_text() == "mine"


def test_figures_may_go_to_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    command.main(["--suite", "banks", "--device", "cuda:0", "--json", "-"], standalone_mode=False)
    document = json.loads(capfd.readouterr().out)
    assert len(document["rows"]) == 6


def test_a_full_device_is_named(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_cupy.DeviceMemory, "limit", fake_cupy.DeviceMemory.held() + 1000)
    with pytest.raises(DeviceError, match="the device's memory is full while measuring threads"):
        experiments.run("threads", "cuda:0", 1, lambda message: None)


@pytest.mark.extras
@pytest.mark.parametrize("suite", [name for name in EXPERIMENTS if name != "memory"])
def test_the_kernels_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suite: str) -> None:
    monkeypatch.setattr(experiments, "Launcher", fake_cupy.Launcher)
    for row in lab.measured(suite, tmp_path)["rows"]:
        assert np.isfinite(row["us"])
        if row.get("method") == "naive":
            assert row["percent_not_finite_around_100"] == 100
