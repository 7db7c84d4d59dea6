"""`accel info`: what is here, what is missing, and which plan would be used."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import fake_cupy
import pytest
from click.testing import CliRunner
from conftest import Accel, clean_environment

from accel_cli.commands import info, startup
from accel_cli.cuda import compiler
from accel_cli.errors import DeviceError, UsageError


@pytest.fixture
def said(tiny_path: Path) -> Any:
    """What `accel info` prints in this process, where a test may replace things."""

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(info.command, ["--config", str(tiny_path), *arguments])
        if result.exception:
            raise result.exception
        return result.output

    return call


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", fail)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = fake_cupy.module()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(compiler, "compiler_version", lambda: "13.0")
    return module


def test_as_a_process(accel: Accel, tiny_path: Path) -> None:
    done = accel("info", "--device", "cpu")
    out = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    for words in (
        "accel ",
        "python ",
        "numpy ",
        "safetensors ",
        "cache ",
        "configuration  tiny",
        str(tiny_path),
    ):
        assert words in out
    for words in ("precision", "folded", "the fewest operations, the same function", "one a core", "batch"):
        assert words in out


def test_without_a_gpu_it_says_what_is_missing(no_gpu: None, said: Any) -> None:
    out = said()
    assert "GPU            none: no NVIDIA driver is installed" in out
    assert "device       cpu" in out


def test_with_a_gpu(gpu: Any, said: Any) -> None:
    out = said()
    assert "GPU            Fake H200, 132 multiprocessors, 139 GiB" in out
    assert "capability     9.0 (sm_90a)" in out
    assert "driver         CUDA 13.0; runtime 13.0" in out
    assert "compiler       NVRTC 13.0" in out
    assert "device       cuda:0        the best device there is" in out
    for choice in (
        "precision +fp16 +the fastest precision whose error stays below 5e-3",
        "convolution +folded +the fewest operations, the same function",
        "gemm +wgmma +the fastest product of Hopper's tensor cores",
        "streams +4 +copies overlap with compute",
    ):
        assert re.search(choice, out)


def test_with_a_gpu_but_no_compiler(gpu: Any, said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise DeviceError("NVRTC, the compiler of CUDA, cannot be loaded")

    monkeypatch.setattr(compiler, "compiler_version", fail)
    assert "compiler       none: NVRTC, the compiler of CUDA, cannot be loaded" in said()


def test_the_second_gpu_is_the_one_shown_when_it_is_asked_for(gpu: Any, said: Any) -> None:
    shown: list[int] = []
    gpu.cuda.runtime.getDeviceProperties = lambda index: shown.append(index) or fake_cupy.PROPERTIES
    assert "device       cuda:1        asked for" in said("--device", "cuda:1")
    assert set(shown) == {1}


def test_a_gpu_that_is_too_old_is_shown_as_such(gpu: Any, said: Any) -> None:
    gpu.cuda.runtime.getDeviceProperties = lambda index: {**fake_cupy.PROPERTIES, "major": 7, "minor": 0}
    assert "GPU            none: Fake H200 has compute capability 7.0" in said("--device", "cpu")


def test_the_plan_alone(no_gpu: None, said: Any) -> None:
    out = said("--plan", "--batch", "7", "--streams", "3")
    assert out.splitlines() == [
        "device: cpu",
        "precision: fp32",
        "convolution: folded",
        "experts: separate",
        "batch: 7",
        "streams: 3",
    ]


def test_a_gpu_that_is_asked_for_and_not_there(accel_here: Accel) -> None:
    done = accel_here("info", "--device", "cuda:77")
    assert done.returncode == 1
    assert "--device cuda:77: " in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_what_is_no_device(accel_here: Accel) -> None:
    done = accel_here("info", "--device", "tpu")
    assert done.returncode == 2
    assert "'tpu' is not one of auto, cpu, cuda, cuda:N" in done.stderr.decode()


STAGES = (
    *("Python", "imports", "configuration", "vocabulary", "device", "weights", "layers", "first batch"),
    *("first label", "second batch", "loading", "but for weights"),
)


def test_where_the_time_of_a_start_goes(accel_here: Accel) -> None:
    done = accel_here("info", "--startup", "--device", "cpu")
    assert done.returncode == 0, done.stderr.decode()
    heading, *rows = done.stdout.decode().splitlines()
    assert heading.split() == ["stage", "seconds", "share"]
    assert tuple(row[:15].strip() for row in rows) == STAGES
    seconds = [float(row[15:23]) for row in rows]
    assert sum(seconds[:-4]) == pytest.approx(seconds[-4], abs=0.01)  # each is rounded to milliseconds
    assert sum(seconds[3:7]) == pytest.approx(seconds[-2], abs=0.01)
    assert seconds[-2] - seconds[5] == pytest.approx(seconds[-1], abs=0.01)
    assert rows[4].endswith("cpu")
    assert rows[-4].endswith("100%")


def test_the_figures_of_a_start(accel_here: Accel, tmp_path: Path) -> None:
    path = tmp_path / "startup.json"
    done = accel_here("info", "--startup", "--device", "cpu", "--json", path)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(path.read_text())
    assert {"machine", "versions", "commit", "date", "plan", "clock"} <= found.keys()
    assert (found["suite"], found["config"], found["device"]) == ("startup", "tiny", "cpu")
    assert (found["kernels_loaded"], found["kernels_compiled"], found["ready_kernels"]) == (0, 0, False)
    rows = {row["stage"]: row["seconds"] for row in found["rows"]}
    assert tuple(rows) == STAGES[:8]
    assert sum(rows.values()) == pytest.approx(found["first_label_seconds"], abs=1e-4)
    loading = sum(rows[name] for name in STAGES[3:7])
    assert loading == pytest.approx(found["load_seconds"], abs=1e-4)
    assert loading - rows["weights"] == pytest.approx(found["load_seconds_without_weights"], abs=1e-4)
    again = accel_here("info", "--startup", "--device", "cpu", "--json", path)
    assert again.returncode == 1
    assert b"exists already" in again.stderr


def test_figures_are_those_of_a_start(said: Any) -> None:
    with pytest.raises(UsageError, match=r"--json figures\.json: only a start has figures"):
        said("--json", "figures.json")


def test_a_start_that_fails(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_PROGRAM", "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(startup.StartupFailed, match=r"signal 9 killed .* memory may have been full: use a"):
        said("--startup")


def test_a_start_imports_what_this_process_would(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_path: Path
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('of the folder')")
    monkeypatch.chdir(tmp_path)
    assert startup.fresh_start(str(tiny_path), "cpu", {})["config"] == "tiny"


def test_what_is_wrong_is_said_by_the_process_that_is_measured(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, tiny_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"begin": 0, "config": str(tiny_path), "device": "cuda:77", "plan": {}}
    monkeypatch.setattr(sys, "argv", ["-c", json.dumps(asked)])
    with pytest.raises(SystemExit) as left:
        startup.main(0.0)
    assert left.value.code == 1
    assert capsys.readouterr().err.startswith("Error: --device cuda:77: no NVIDIA driver is installed")


def test_a_start_without_memory_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**asked: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(startup, "start", full)
    monkeypatch.setattr(sys, "argv", ["-c", "{}"])
    with pytest.raises(SystemExit) as left:
        startup.main(0.0)
    assert left.value.code == 1
    assert capsys.readouterr().err == "Error: this machine's memory is full; use a smaller --batch\n"


def test_ctrl_c_ends_the_process_that_is_measured_without_a_word(tmp_path: Path) -> None:
    package = tmp_path / "accel_cli" / "commands"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "startup.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    program = startup._PROGRAM.format(path=[str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_start_and_a_plan_are_two_things(said: Any) -> None:
    with pytest.raises(UsageError, match="--startup and --plan print different things"):
        said("--startup", "--plan")


def test_a_start_imports_no_more_than_it_needs(tiny_path: Path) -> None:
    program = (
        "import sys; from accel_cli.commands import startup; startup._report = lambda *_: {};"
        " startup.start(0, 0, sys.argv[1], 'cpu', {});"
        " print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tiny_path],
        env=clean_environment(tiny_path),
        capture_output=True,
        timeout=120,
        check=True,
    )
    # numpy's own latecomers, and what only other ways to run need
    unwanted = {"numpy.ma", "numpy.random", "multiprocessing", "cupy", "torch", "rich"}
    assert not unwanted & set(done.stdout.decode().split())
