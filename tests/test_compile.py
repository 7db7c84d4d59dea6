"""`accel compile`: what is compiled for which architecture, and what is refused, without a compiler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from accel_cli.commands import compile as module
from accel_cli.cuda import cache, compiler
from accel_cli.cuda.manifest import MANIFEST
from accel_cli.errors import DeviceError, OutputError, UsageError
from accel_cli.kernels.base import Launch


class Ahead:
    """In place of CompileAhead: nothing is compiled before it is asked for."""

    fault = ""

    def __init__(self, architecture: str) -> None: ...

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *failure: object) -> None: ...

    def compiled(self, launches: Iterable[Launch], end: float) -> Iterator[tuple[Launch, str]]:
        for launch in launches:
            yield launch, self.fault if launch.kernel.name == "skinny" else ""


Compile = Callable[..., set[tuple[str, str]]]


@pytest.fixture
def compiled(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Run `accel compile`; gives the architectures and names of the kernels in the folder."""
    monkeypatch.setattr(module, "CompileAhead", Ahead)
    monkeypatch.setattr(module, "compiler_version", lambda: "13.0")
    monkeypatch.setattr(compiler, "compiler_version", lambda: "13.0")
    monkeypatch.setattr(
        compiler, "_nvrtc", lambda: SimpleNamespace(getSupportedArchs=lambda: (75, 80, 90, 100))
    )
    monkeypatch.setattr(cache, "compiler_version", lambda: "13.0")
    monkeypatch.setattr(cache, "compile_kernel", lambda name, flags, sources: (name.encode(), ""))
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))

    def call(*words: str) -> set[tuple[str, str]]:
        output = tmp_path / "ready"
        module.command.main([*words, "--output", str(output)], standalone_mode=False)
        kernels: list[dict[str, Any]] = json.loads((output / MANIFEST).read_text())["kernels"]
        assert len(list(output.glob("*.cubin"))) == len(kernels)
        return {(one["architecture"], one["kernel"]) for one in kernels}

    return call


def test_each_architecture_has_the_plan_that_its_devices_choose(compiled: Compile) -> None:
    found = compiled("--precision", "fp16")
    assert {architecture for architecture, _ in found} == {"sm_80", "sm_90a", "sm_100"}
    products = {(architecture, name) for architecture, name in found if name.endswith("mma_gemm")}
    assert products == {("sm_80", "mma_gemm"), ("sm_90a", "wgmma_gemm"), ("sm_100", "mma_gemm")}


@pytest.mark.extras
def test_all_plans_are_more_than_one(compiled: Compile) -> None:
    one = compiled("--arch", "sm_90a")
    every = compiled("--arch", "sm_90a", "--all-plans", "--overwrite")
    assert one < every
    names = {name for _, name in every}
    assert {"conv1d", "linear", "mma_gemm", "wgmma_gemm", "folded_table", "toomcook_input"} <= names


def test_embeddings_as_input_take_more(compiled: Compile) -> None:
    extra = ("sm_90a", "transpose")
    assert extra not in compiled("--arch", "sm_90a")
    assert extra in compiled("--arch", "sm_90a", "--embeddings", "--overwrite")


@pytest.mark.parametrize("name", ["sm_70", "", "90a", "sm_90a sm_80", "../x", "sm_8", "sm_999a", "sm_80a"])
def test_what_is_no_architecture(compiled: Compile, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        compiled("--arch", f"sm_80,{name}")
    assert str(refused.value) == (
        f"--arch: {name!r} is no architecture that NVRTC 13.0"
        " compiles for and accel runs on; there are sm_80, sm_90, sm_90a, sm_100, sm_100a"
    )


def test_an_architecture_that_a_kernel_of_the_plan_does_not_exist_for(compiled: Compile) -> None:
    words = "--arch sm_90: the plan of its devices launches wgmma_gemm, which exists for sm_90a alone"
    with pytest.raises(UsageError, match=words):
        compiled("--arch", "sm_90", "--precision", "fp16")
    assert compiled("--arch", "sm_90", "--precision", "fp32")


def test_a_folder_that_cannot_be_written_is_known_before_anything_is_compiled(
    compiled: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ahead, "compiled", lambda *_: pytest.fail("compiled"))
    words = ["--output", "/proc/none/ready"]
    with pytest.raises(OutputError, match="cannot write into /proc/none"):
        module.command.main(words, standalone_mode=False)


def test_options_that_contradict_each_other(compiled: Compile) -> None:
    with pytest.raises(UsageError, match="--precision fp16: --all-plans has every precision"):
        compiled("--all-plans", "--precision", "fp16")


def test_a_plan_for_a_cpu(compiled: Compile, tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "cpu.yaml"
    path.write_text(f"extends: {tiny_path}\nplan: {{device: cpu}}\n")
    with pytest.raises(UsageError, match=r"cpu.yaml is a plan for a CPU, which launches no kernels"):
        compiled("--config", str(path))


def test_a_kernel_that_does_not_compile_leaves_no_folder(
    compiled: Compile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Ahead, "fault", "kernel skinny does not compile")
    words = "compiling skinny for sm_80 failed: kernel skinny does not compile"
    with pytest.raises(DeviceError, match=words):
        compiled("--arch", "sm_80")
    assert not (tmp_path / "ready").exists()


def test_another_folder_is_not_replaced(compiled: Compile, tmp_path: Path) -> None:
    (tmp_path / "ready").mkdir()
    (tmp_path / "ready" / "letters.txt").write_text("dear")
    with pytest.raises(OutputError, match=r"is no folder of kernels \(it has no manifest.json\)"):
        compiled("--overwrite")
    assert (tmp_path / "ready" / "letters.txt").read_text() == "dear"
