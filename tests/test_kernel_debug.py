"""--kernel-debug: from the command line to the compiler, and never a stale cubin from the cache."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import fake_cupy
import networks
import pytest
from conftest import Accel, needs_gpu

from accel_cli import resources
from accel_cli.commands import bench, run, validate
from accel_cli.cuda import cache as cache_module
from accel_cli.cuda import compiler
from accel_cli.cuda.cache import KernelCache
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.planner import available_plans, make_plan
from accel_cli.errors import ConfigError
from accel_cli.kernels.catalogue import variants
from accel_cli.model.config import PlanSpec, load_config
from accel_cli.validation import TOLERANCE

DEFINES = (("THREADS", 256),)
FLAGS = {"": None, "line": "-lineinfo", "full": "--device-debug"}


@pytest.mark.parametrize("level", FLAGS)
def test_the_compiler_is_told(level: str) -> None:
    flags = compiler.options("sm_90a", DEFINES, debug=level)
    assert [flag for flag in flags if flag in FLAGS.values()] == [flag for flag in [FLAGS[level]] if flag]
    assert "-DTHREADS=256" in flags


def test_the_plan_carries_it_on_cuda_and_shows_it() -> None:
    wanted = PlanSpec().overridden(kernel_debug="full")
    plan = make_plan(networks.RAGGED, wanted, "cuda:0")
    assert plan.kernel_debug == "full"
    assert str(plan).endswith(" kernel_debug=full")
    assert plan.reasons["kernel_debug"] == "asked for"
    assert "kernel_debug" not in str(make_plan(networks.RAGGED, PlanSpec(), "cuda:0"))
    assert {each.kernel_debug for each in available_plans(networks.RAGGED, wanted, "cuda:0")} == {"full"}


def test_it_means_nothing_on_a_cpu() -> None:
    wanted = PlanSpec(kernel_debug="line")
    assert make_plan(networks.RAGGED, wanted, "cpu") == make_plan(networks.RAGGED, PlanSpec(), "cpu")


def test_the_engine_hands_it_to_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Launcher(fake_cupy.Launcher):
        def __init__(self, device: Any, *, debug: str = "", kernels: str = "") -> None:
            made.append(debug)
            super().__init__(device)

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", Launcher)
    spec = networks.RAGGED
    CudaEngine(spec, networks.weights_of(spec), networks.plan("cuda:0", kernel_debug="line"))
    assert made == ["line"]


class Reached(Exception):
    """As far as a test goes."""


@pytest.mark.parametrize("module", [run, bench, validate])
@pytest.mark.parametrize("variable", [True, False])
def test_the_commands_have_the_option(
    tiny_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, variable: bool
) -> None:
    asked: list[Any] = []

    def configured(config: str, **plan: Any) -> Any:
        asked.append(plan["kernel_debug"])
        raise Reached

    monkeypatch.setattr(module, "configured", configured)
    arguments = [] if variable else ["--kernel-debug", "line"]
    monkeypatch.setenv("ACCEL_KERNEL_DEBUG", "line" if variable else "full")  # an option overrules
    with pytest.raises(Reached):
        module.command.main(["--config", str(tiny_path), *arguments], standalone_mode=False)
    assert asked == ["line"]


def test_another_level_is_refused(accel_here: Accel) -> None:
    done = accel_here("run", "--kernel-debug", "much")
    assert done.returncode == 2
    assert b"'much' is not one of 'line', 'full'" in done.stderr


def test_configurations_cannot_ask_for_it(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"name: a\nextends: {tiny_path}\nplan: {{kernel_debug: line}}\n")
    with pytest.raises(ConfigError, match="kernel_debug"):
        load_config(path)


# The cache


@pytest.fixture
def headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a header of CUDA, and a compiler that compiles anything."""
    folder = tmp_path / "nvidia" / "cu13" / "include"
    folder.mkdir(parents=True)
    (folder / "cuda_fp16.h").write_text("#define VERSION 1300\n")
    monkeypatch.setattr(compiler.sys, "path", [str(tmp_path)])
    monkeypatch.setattr(cache_module, "compile_kernel", lambda *_: (b"cubin", ""))
    monkeypatch.setattr(cache_module, "compiler_version", lambda: "13.0")
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def entry(debug: str = "", sources: Path = resources.KERNELS) -> Path:
    return KernelCache("sm_90a", sources, debug=debug).cubin("relu", DEFINES)


def test_every_level_has_its_own_entry(headers: Path) -> None:
    assert len({entry(level) for level in FLAGS}) == len(FLAGS)
    assert entry("line") == entry("line")


def test_a_cubin_that_names_its_sources_is_not_taken_for_those_elsewhere(
    headers: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(resources.KERNELS, tmp_path / "copy"))
    both = Path(shutil.copytree(resources.KERNELS, tmp_path / "both"))
    assert entry("", copy) == entry("", both)
    assert entry("line", copy) != entry("line", both)


def test_other_headers_of_cuda_compile_again(headers: Path) -> None:
    first = entry()
    (headers / "cuda_fp16.h").write_text("#define VERSION 13000\n")
    second = entry()
    (headers / "cuda_fp8.hpp").write_text("")
    assert len({first, second, entry()}) == 3
    (headers / "notes.txt").write_text("not a header")
    (headers / "cuda_fp8.hpp").unlink()
    assert entry() == second


def test_no_headers_at_all(headers: Path) -> None:
    first = entry()
    shutil.rmtree(headers)
    assert entry() != first


# The real compiler


@pytest.mark.extras
@pytest.mark.parametrize("level", FLAGS)
def test_what_a_cubin_tells_tools(level: str) -> None:
    pytest.importorskip("cupy", reason="CuPy, which brings the compiler, is not installed")
    cubin, log = compiler.compile_kernel("relu", compiler.options("sm_90a", DEFINES, debug=level))
    assert (b".debug_line" in cubin) == (level != "")
    assert (b".debug_info" in cubin) == (level == "full")
    assert (str(resources.KERNELS).encode() in cubin) == (level != "")  # beside the file's own name
    assert "warning" not in log, log


@pytest.mark.extras
def test_every_kernel_compiles_for_the_debugger() -> None:
    pytest.importorskip("cupy", reason="CuPy, which brings the compiler, is not installed")
    for launch in {launch.kernel.name: launch for launch in variants()}.values():
        flags = compiler.options("sm_90a", launch.defines, debug="full")
        _, log = compiler.compile_kernel(launch.kernel.name, flags)
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        assert compiler.usage(log).registers * threads <= 65536, launch.kernel.name


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("level", ["line", "full"])
def test_it_computes_the_same_on_a_gpu(accel: Accel, level: str) -> None:
    plain = accel("run", "--device", "cuda", "--fields", "logits", stdin=b"good film\nnot bad .\n")
    done = accel(
        "run",
        "--device",
        "cuda",
        "--fields",
        "logits",
        "--kernel-debug",
        level,
        stdin=b"good film\nnot bad .\n",
    )
    assert done.returncode == 0, done.stderr
    numbers = [
        [float(word) for word in re.split(rb"\s+", out.strip())] for out in (plain.stdout, done.stdout)
    ]
    assert numbers[0] == pytest.approx(numbers[1], abs=TOLERANCE["fp16"])
    assert f"kernel_debug={level}".encode() in done.stderr
