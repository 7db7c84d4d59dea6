"""Every kernel through the real compiler, NVRTC, which needs no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Accel, clean_environment

from accel_cli.cuda import cache as module
from accel_cli.cuda.cache import KernelCache
from accel_cli.cuda.compiler import ARCHITECTURES, compile_kernel, compiler_version, options, usage
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import Launch
from accel_cli.kernels.catalogue import variants

pytestmark = pytest.mark.extras
pytest.importorskip("cupy", reason="CuPy, which brings the compiler, is not installed")


def label(launch: Launch) -> str:
    return "-".join([launch.kernel.name, *(f"{key}={value}" for key, value in launch.defines)])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("launch", variants(), ids=label)
def test_every_variant_compiles_without_spills(launch: Launch, architecture: str) -> None:
    cubin, log = compile_kernel(launch.kernel.name, options(architecture, launch.defines))
    assert cubin.startswith(b"\x7fELF")
    found = usage(log)
    assert 0 < found.registers <= 255
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    assert found.registers * threads <= 65536
    assert "warning" not in log, log


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

    def forbidden(*_: Any) -> None:
        pytest.fail("compiled")

    monkeypatch.setattr(module, "compile_kernel", forbidden)
    monkeypatch.setenv("ACCEL_ASSERT_NO_COMPILE", "1")
    assert KernelCache("sm_90a").cubin("relu", (("THREADS", 256),)) == path


def test_the_command(accel: Accel) -> None:
    done = accel("kernels", "--arch", "sm_90a")
    out = done.stdout.decode()
    assert done.returncode == 0, out + done.stderr.decode()
    assert f"NVRTC {compiler_version()}" in out
    names = [line.split()[0] for line in out.splitlines()[2:]]
    assert names == [launch.kernel.name for launch in variants()]
    bad = accel("kernels", "--arch", "sm_10")
    assert bad.returncode == 1
    assert "does not compile" in bad.stderr.decode()
    assert "Traceback" not in bad.stderr.decode()


SPILL = """
import sys
sys.argv = ["accel", "kernels", "--arch", "sm_90a"]
from accel_cli.commands import kernels
kernels.usage = lambda log: kernels_usage(log).__class__(255, 0, 0, 8)
from accel_cli.cuda.compiler import usage as kernels_usage
from accel_cli.commands import main
main()
"""


def test_a_spill_is_an_error(tiny_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPILL],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env=clean_environment(tiny_path),
    )
    assert done.returncode == 1
    assert b"registers are spilled to memory by embedding for sm_90a, " in done.stderr
    assert b"use smaller tiles" in done.stderr
