"""Every kernel through the real compiler, NVRTC, which needs no GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import Accel

from accel_cli.commands import kernels
from accel_cli.cuda import cache as module
from accel_cli.cuda.cache import KernelCache
from accel_cli.cuda.compiler import (
    ARCHITECTURES,
    Usage,
    architectures,
    compile_kernel,
    compiler_version,
    options,
    usage,
)
from accel_cli.cuda.disassembler import INSTALL, disassembler, matrix_instructions
from accel_cli.cuda.manifest import load_manifest
from accel_cli.cuda.ready import ReadyKernels
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import Launch
from accel_cli.kernels.catalogue import variants

pytestmark = pytest.mark.extras
pytest.importorskip("cupy", reason="CuPy, which brings the compiler, is not installed")


# In machine code: waits for the kernels before, touches global memory.
WAITS = "ACQBULK"
TOUCHES = re.compile(r"^(LDG|STG|LDGSTS|UBLKCP|RED|ATOMG?|LD|ST)(\.|$)")


def label(launch: Launch) -> str:
    return "-".join([launch.kernel.name, *(f"{key}={value}" for key, value in launch.defines)])


def existing(launches: Iterable[Launch]) -> list[Any]:
    """Each of some launches, for each architecture that it exists for."""
    return [
        pytest.param(launch, architecture, id=f"{label(launch)}-{architecture}")
        for launch in launches
        for architecture in ARCHITECTURES
        if launch.kernel.exists_for(architecture)
    ]


@pytest.mark.parametrize(("launch", "architecture"), existing(variants()))
def test_every_variant_compiles_without_spills(launch: Launch, architecture: str) -> None:
    cubin, log = compile_kernel(launch.kernel.name, options(architecture, launch.defines))
    assert cubin.startswith(b"\x7fELF")
    found = usage(log)
    assert 0 < found.registers <= 255
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    assert found.registers * threads <= 65536
    assert "warning" not in log, log
    assert "Performance Loss" not in log, log  # products that wait for each other, for the want of registers


OVERLAPPING = existing(launch for launch in variants() if launch.kernel.overlaps)


@pytest.mark.skipif(disassembler() is None, reason=f"no disassembler: {INSTALL}")
@pytest.mark.parametrize(("launch", "architecture"), OVERLAPPING)
def test_nothing_is_read_before_a_kernel_has_waited(
    launch: Launch, architecture: str, tmp_path: Path
) -> None:
    """The compiler may move reads of what it takes for constant."""
    path = tmp_path / "kernel.cubin"
    path.write_bytes(compile_kernel(launch.kernel.name, options(architecture, launch.defines))[0])
    shown = subprocess.run([disassembler(), "--dump-sass", path], capture_output=True, text=True)
    words = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][A-Z0-9_.]*)", shown.stdout)
    touching = [number for number, word in enumerate(words) if TOUCHES.match(word)]
    assert words.index(WAITS) < min(touching)


def test_the_architectures_are_those_that_are_promised() -> None:
    assert ARCHITECTURES == ("sm_80", "sm_90a", "sm_100")


def test_code_that_does_not_compile(tmp_path: Path) -> None:
    (tmp_path / "broken.cu").write_text('extern "C" __global__ void broken() { what; }\n')
    with pytest.raises(DeviceError, match=r'(?s)kernel broken does not .*identifier "what" is undefined'):
        compile_kernel("broken", options("sm_90a", ()), tmp_path)


def test_a_constant_that_is_missing() -> None:
    with pytest.raises(DeviceError, match="THREADS not defined"):
        compile_kernel("relu", options("sm_90a", ()))


def test_an_architecture_that_is_not_there() -> None:
    with pytest.raises(DeviceError, match=r"kernel relu does not compile for .*sm_10"):
        compile_kernel("relu", options("sm_10", (("THREADS", 256),)))


def test_headers_of_cuda_are_found(tmp_path: Path) -> None:
    (tmp_path / "halves.cu").write_text(
        '#include <cuda_fp16.h>\nextern "C" __global__ void halves(__half* x) { x[0] = __float2half(1); }\n'
    )
    assert compile_kernel("halves", options("sm_90a", ()), tmp_path)[0].startswith(b"\x7fELF")


def test_the_second_use_compiles_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    path = KernelCache("sm_90a").cubin("relu", (("THREADS", 256),))
    assert path.read_bytes().startswith(b"\x7fELF")
    monkeypatch.setattr(module, "compile_kernel", forbidden)
    monkeypatch.setenv("ACCEL_ASSERT_NO_COMPILE", "1")
    assert KernelCache("sm_90a").cubin("relu", (("THREADS", 256),)) == path


def test_made_ahead_is_made_just_in_time(
    accel: Accel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "ahead"))
    (tmp_path / "naive.yaml").write_text(
        "extends: sentiment\n"
        "plan: {convolution: direct, experts: separate, gemm: naive, epilogue: separate, launch: stream}\n"
    )
    words = ("--config", tmp_path / "naive.yaml", "--output", tmp_path / "ready")
    done = accel("compile", "--arch", "sm_90a", *words)
    assert done.returncode == 0, done.stderr.decode()
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "here"))
    cache = KernelCache("sm_90a")
    listed = load_manifest(tmp_path / "ready").kernels
    assert len(listed) == 9
    with monkeypatch.context() as patched:
        patched.setattr(module, "compiler_version", forbidden)
        ready = ReadyKernels(tmp_path / "ready", cache)
        made = {one: ready.cubin(one.kernel, one.defines).read_bytes() for one in listed}
    for one in listed:
        assert cache.cubin(one.kernel, one.defines).read_bytes() == made[one]


def forbidden(*_: Any) -> Any:
    pytest.fail("the compiler was asked")


Command = Callable[..., list[list[str]]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `accel kernels` for some kernels, in one variant each; gives the words of its lines."""

    def call(*names: str, architecture: str = "sm_90a") -> list[list[str]]:
        few = {launch.kernel.name: launch for launch in variants() if launch.kernel.name in names}
        monkeypatch.setattr(kernels, "variants", lambda: list(few.values()))
        kernels.command.main(["--arch", architecture], standalone_mode=False)
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return call


def test_the_command(command: Command) -> None:
    version, *_, heading, relu, softmax = command("relu", "softmax")
    assert version == ["NVRTC", compiler_version()]
    assert heading == ["kernel", "arch", "registers", "shared", "stack", "spills", "matrix", "constants"]
    assert relu[:2] + relu[3:] == ["relu", "sm_90a", "0", "0", "0", "-", "THREADS=256"]
    assert softmax[0] == "softmax"


def test_the_command_for_what_there_is_not(accel: Accel) -> None:
    bad = accel("kernels", "--arch", "sm_10")
    assert bad.returncode == 2
    assert "--arch: 'sm_10' is no architecture that NVRTC" in bad.stderr.decode()


def test_the_architectures_that_there_are() -> None:
    there = architectures()
    assert {*ARCHITECTURES, "sm_90"} <= set(there)
    assert not {"sm_75", "sm_80a"} & set(there)
    for name in there:
        assert compile_kernel("relu", options(name, (("THREADS", 256),)))[0].startswith(b"\x7fELF")


def test_a_spill_is_an_error(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usage", lambda log: Usage(255, 0, 0, 8))
    words = "memory by relu for sm_90a, softmax for sm_90a; use smaller tiles"
    with pytest.raises(kernels.KernelsSpill, match=words):
        command("relu", "softmax")


# Matrix instructions

needs_disassembler = pytest.mark.skipif(disassembler() is None, reason=f"no cuobjdump: {INSTALL}")


@needs_disassembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tensor_cores_are_used(command: Command, architecture: str) -> None:
    *_, mma, last = command("relu", "mma_gemm", "wgmma_gemm", architecture=architecture)
    if architecture == "sm_90a":
        assert last[0] == "wgmma_gemm"
        assert last[7] == "HGMMA"
    else:
        mma = last  # the other one does not exist
    assert mma[0] == "mma_gemm"
    assert mma[7] == "HMMA"
    assert int(mma[6]) > 0


@pytest.mark.parametrize(
    ("name", "counts", "words"),
    [
        ("mma_gemm", {}, "mma_gemm for sm_90a with -, expected HMMA alone"),
        ("wgmma_gemm", {}, "wgmma_gemm for sm_90a with -, expected HGMMA alone"),
        ("wgmma_gemm", {"HGMMA": 4, "HMMA": 2}, "wgmma_gemm for sm_90a with 4 HGMMA 2 HMMA, expected HGMMA"),
    ],
)
def test_other_instructions_are_an_error(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str, counts: dict[str, int], words: str
) -> None:
    monkeypatch.setattr(kernels, "disassembler", lambda: Path("cuobjdump"))
    monkeypatch.setattr(kernels, "matrix_instructions", lambda tool, cubin: counts)
    with pytest.raises(kernels.WrongInstructions, match=words):
        command("relu", name)


def test_without_a_disassembler(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "disassembler", lambda: None)
    _, note, _, mma = command("mma_gemm")
    assert " ".join(note) == f"matrix instructions are not counted: {INSTALL}"
    assert mma[6] == "-"


def test_where_a_disassembler_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, other = tmp_path / "nvidia/cu13/bin/cuobjdump", tmp_path / "bin/cuobjdump"
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("PATH", str(other.parent))
    assert disassembler() is None
    for path in (packaged, other):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\necho cannot read $1 >&2; exit 3\n")
        path.chmod(0o755)
    assert disassembler() == other  # what is packaged lacks its other half
    packaged.with_name("nvdisasm").touch()
    assert disassembler() == packaged
    with pytest.raises(DeviceError, match="cuobjdump fails: cannot read --dump-sass; install `nvidia-"):
        matrix_instructions(packaged, b"cubin")
