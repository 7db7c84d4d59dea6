"""Who is told of a folder of kernels: plans for CUDA, their engines, and callers from Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import fake_cupy
import networks
import pytest

from accel_cli import provenance
from accel_cli.classifier import Classifier
from accel_cli.cuda import compiler
from accel_cli.cuda.device import DeviceFacts
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.errors import DeviceError, UsageError
from accel_cli.model.config import PlanSpec


def test_debuggers_want_their_own() -> None:
    facts = DeviceFacts(0, "GPU", (9, 0), 132, 1 << 37, 1 << 26, 13000, 13000)
    with pytest.raises(UsageError, match=r"--kernels ready: kernels for debuggers \(--kernel-debug line\)"):
        Launcher(facts, debug="line", kernels="ready")


def test_the_plan_carries_the_folder_on_cuda_and_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = PlanSpec().overridden(kernels="ready")
    plan = make_plan(networks.RAGGED, wanted, "cuda:0")
    assert str(plan).endswith(" kernels=ready")
    assert plan.reasons["kernels"] == "asked for"
    assert {each.kernels for each in available_plans(networks.RAGGED, wanted, "cuda:0")} == {"ready"}
    assert make_plan(networks.RAGGED, wanted, "cpu") == make_plan(networks.RAGGED, PlanSpec(), "cpu")

    made: list[str] = []

    class Noting(fake_cupy.Launcher):
        def __init__(self, device: Any, *, debug: str = "", kernels: str = "") -> None:
            made.append(kernels)
            super().__init__(device)

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", Noting)
    spec = networks.RAGGED
    CudaEngine(spec, networks.weights_of(spec), networks.plan("cuda:0", kernels="ready"))
    assert made == ["ready"]


def test_from_python(tiny_path: Path) -> None:
    with Classifier.load(tiny_path, device="cpu", kernels=Path("ready")) as classifier:
        assert classifier.config.plan.kernels == "ready"
        assert classifier.plan.kernels == ""  # which a CPU has no use for


def test_figures_measured_without_a_compiler_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise DeviceError("NVRTC, the compiler of CUDA, cannot be loaded")

    cupy = fake_cupy.module()
    cupy.__version__ = "14.2.0"
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(compiler, "compiler_version", absent)
    gpu = DeviceFacts(0, "GPU", (9, 0), 132, 1 << 37, 1 << 26, 13000, 13000)
    assert provenance._versions(gpu, ())["compiler"] is None
    monkeypatch.setattr(compiler, "compiler_version", lambda: "13.0")
    assert provenance._versions(gpu, ())["compiler"] == "NVRTC 13.0"
