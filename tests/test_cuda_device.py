"""Finding the GPU and saying why there is none; loading kernels; what the compiler says."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_cupy
import numpy as np
import pytest

from accel_cli.cuda import compiler, device, launcher
from accel_cli.cuda.compiler import Usage, options, usage
from accel_cli.cuda.device import DeviceFacts, choose, choose_gpu, facts, missing
from accel_cli.errors import DeviceError, UsageError
from accel_cli.kernels.base import Array, Kernel, Launch, Scalar


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())


@pytest.fixture
def cupy(driver: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with a driver, CuPy and two devices."""
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    return module


def no_driver(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", no_driver)
    reason = missing() or ""
    assert "no NVIDIA driver is installed (libcuda.so.1 is missing)" in reason


def test_no_cupy(driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    reason = missing() or ""
    assert 'CuPy is not installed: install CuPy from a checkout with `pip install ".[cuda13]"`' in reason


def test_cupy_that_cannot_be_imported(driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "cupy", None)
    reason = missing() or ""
    assert "CuPy cannot be imported (" in reason
    assert 'pip install ".[cuda13]"' in reason
    assert "--device" not in reason  # `accel kernels` has no such option


def test_a_driver_that_is_too_old(cupy: Any) -> None:
    def fail() -> int:
        raise fake_cupy.CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    cupy.cuda.runtime.getDeviceCount = fail
    reason = missing() or ""
    assert "the NVIDIA driver gives no device (cudaErrorInsufficientDriver" in reason
    assert "update the driver" in reason


def test_no_device(cupy: Any) -> None:
    cupy.cuda.runtime.getDeviceCount = lambda: 0
    assert "the NVIDIA driver sees no device: check `nvidia-smi`" in (missing() or "")


def test_a_device_that_is_there(cupy: Any) -> None:
    assert missing() is None
    assert [choose(name) for name in ("auto", "cpu", "cuda", "cuda:0", "cuda:1")] == [
        "cuda:0",
        "cpu",
        "cuda:0",
        "cuda:0",
        "cuda:1",
    ]


def test_a_number_too_high(cupy: Any) -> None:
    with pytest.raises(DeviceError, match=r"--device cuda:2: there are 2 devices, cuda:0 to cuda:1"):
        choose("cuda:2")
    cupy.cuda.runtime.getDeviceCount = lambda: 1
    with pytest.raises(DeviceError, match=r"--device cuda:1: there is 1 device, cuda:0$"):
        choose("cuda:1")


def test_choosing_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", no_driver)
    assert choose("auto") == choose("cpu") == "cpu"
    for name in ("cuda", "cuda:0"):
        with pytest.raises(
            DeviceError, match=rf"--device {name}: no NVIDIA driver is installed .*, or use `--device cpu`$"
        ):
            choose(name)


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:1"])
def test_what_needs_a_gpu_says_why_there_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", no_driver)
    with pytest.raises(DeviceError) as caught:
        choose_gpu(name, "--suite gemm")
    assert str(caught.value) == (
        "--suite gemm needs a GPU, and no NVIDIA driver is installed (libcuda.so.1 is missing): install one"
    )


def test_what_needs_a_gpu_takes_the_first_and_no_cpu(cupy: Any) -> None:
    assert [choose_gpu(name, "this") for name in ("auto", "cuda", "cuda:1")] == ["cuda:0", "cuda:0", "cuda:1"]
    with pytest.raises(UsageError, match=r"^--device cpu: this needs a GPU; name one with --device cuda:N$"):
        choose_gpu("cpu", "this")
    with pytest.raises(DeviceError, match="--device cuda:2: there are 2 devices"):
        choose_gpu("cuda:2", "this")


def test_choosing_the_cpu_looks_for_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("looked"))
    assert choose("cpu") == "cpu"


def test_facts(cupy: Any) -> None:
    found = facts(1)
    assert (found.index, found.name, found.capability, found.processors) == (1, "Fake H200", (9, 0), 132)
    assert (found.driver, found.runtime, found.memory) == (13000, 13000, 139 << 30)


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a"), ((12, 0), "sm_120a")],
)
def test_architectures(capability: tuple[int, int], architecture: str) -> None:
    assert DeviceFacts(0, "x", capability, 1, 1, 1, 1, 1).architecture == architecture


def test_a_device_that_is_too_old(cupy: Any) -> None:
    cupy.cuda.runtime.getDeviceProperties = lambda index: {**fake_cupy.PROPERTIES, "major": 7, "minor": 5}
    with pytest.raises(
        DeviceError, match=r"Fake H200 has compute capability 7.5, accel needs 8.0 or newer; name another GPU"
    ):
        facts(0)


def test_nvrtc_that_cannot_be_loaded(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> tuple[int, int]:
        raise RuntimeError("no libnvrtc.so.13\nand a page more")

    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(nvrtc=SimpleNamespace(getVersion=fail)))
    with pytest.raises(DeviceError) as caught:
        compiler.compiler_version()
    assert "NVRTC, the compiler of CUDA, cannot be loaded (no libnvrtc.so.13): install CuPy" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


class Nvrtc:
    """A compiler that takes any program, or none."""

    class NVRTCError(RuntimeError):
        """As CuPy's."""

    def __init__(self, *, works: bool) -> None:
        self.works = works
        self.alive = 0
        self.options: tuple[str, ...] = ()

    def getVersion(self) -> tuple[int, int]:  # noqa: N802 - CuPy's names
        return (13, 0)

    def createProgram(self, source: str, name: str, *_: Any) -> str:  # noqa: N802
        assert "__global__" in source
        self.alive += 1
        return name

    def compileProgram(self, program: str, flags: tuple[str, ...]) -> None:  # noqa: N802
        self.options = flags
        if not self.works:
            raise self.NVRTCError("NVRTC_ERROR_COMPILATION")

    def getProgramLog(self, program: str) -> str:  # noqa: N802
        return "relu.cu(3): error: what"

    def getCUBIN(self, program: str) -> bytes:  # noqa: N802
        return b"cubi"

    def destroyProgram(self, program: str) -> None:  # noqa: N802
        self.alive -= 1


@pytest.mark.parametrize("works", [True, False])
def test_compiling(cupy: Any, monkeypatch: pytest.MonkeyPatch, works: bool) -> None:
    nvrtc = Nvrtc(works=works)
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(nvrtc=nvrtc))
    flags = options("sm_90a", (("THREADS", 256),))
    if works:
        assert compiler.compile_kernel("relu", flags) == (b"cubi\0", "relu.cu(3): error: what")
    else:
        with pytest.raises(DeviceError, match=r"(?s)relu does not compile for .*sm_90a.*relu.cu\(3\): error"):
            compiler.compile_kernel("relu", flags)
    assert nvrtc.alive == 0
    assert nvrtc.options[: len(flags)] == flags
    assert {"--gpu-architecture=sm_90a", "-DTHREADS=256", "--std=c++17"} <= set(flags)


LOG = """\
ptxas info    : 0 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function 'conv1d' for 'sm_90a'
ptxas info    : Function properties for conv1d
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 3072 bytes smem
ptxas info    : Compile time = 10.1 ms
"""


def test_what_ptxas_says() -> None:
    assert usage(LOG) == Usage(registers=40, shared_bytes=3072, stack_bytes=8, spill_bytes=16)
    assert usage("ptxas info    : Used 8 registers, 360 bytes cmem[0]") == Usage(8, 0, 0, 0)


FACTS = DeviceFacts(0, "x", (9, 0), 1, 1, 1, 1, 1)
KERNEL = Kernel("relu", (Array("y", "float32", written=True), Scalar("count", "int64")))


class Function:
    """A loaded kernel."""

    max_dynamic_shared_size_bytes = 0

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *arguments: Any, **keys: Any) -> None:
        self.calls.append((arguments, keys))


@pytest.fixture
def loaded(cupy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Function]:
    """The functions that a launcher loads."""
    functions: list[Function] = []

    def load(path: str) -> Any:
        functions.append(Function())
        return SimpleNamespace(get_function=lambda name: functions[-1])

    cupy.RawModule = load
    fake = SimpleNamespace(cubin=lambda name, defines: tmp_path / name, compiled=0)
    monkeypatch.setattr(launcher, "KernelCache", lambda architecture, sources, debug: fake)
    return functions


def launch_of(grid: int, threads: int = 256, shared: int = 0) -> Launch:
    return Launch(KERNEL, (("THREADS", threads),), (grid, 1, 1), (threads, 1, 1), shared)


def test_a_kernel_is_loaded_once_whatever_the_grid(loaded: list[Function]) -> None:
    run, y = launcher.Launcher(FACTS), np.zeros(5, np.float32)
    for grid in (1, 2, 3):
        run(launch_of(grid), y, 5)
    run(launch_of(1, threads=128), y, 5)
    assert [len(function.calls) for function in loaded] == [3, 1]
    (grid, block, arguments), keys = loaded[0].calls[2]
    assert (grid, block, keys) == ((3, 1, 1), (256, 1, 1), {"shared_mem": 0})
    assert arguments[0] is y
    assert type(arguments[1]) is np.int64


def test_arguments_are_packed_before_anything_is_launched(loaded: list[Function]) -> None:
    with pytest.raises(TypeError, match="argument y: expected an array of float32, got float64"):
        launcher.Launcher(FACTS)(launch_of(1), np.zeros(5), 5)
    assert loaded == []


def test_much_shared_memory_is_asked_for(loaded: list[Function]) -> None:
    run, y = launcher.Launcher(FACTS), np.zeros(5, np.float32)
    run(launch_of(1, shared=48 << 10), y, 5)
    run(launch_of(1, shared=100 << 10), y, 5)
    assert [function.max_dynamic_shared_size_bytes for function in loaded] == [0, 100 << 10]
    assert loaded[1].calls[0][1] == {"shared_mem": 100 << 10}


def test_more_shared_memory_than_there_is(loaded: list[Function], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Function, size: int) -> None:
        raise fake_cupy.CUDADriverError("CUDA_ERROR_INVALID_VALUE")

    monkeypatch.setattr(Function, "max_dynamic_shared_size_bytes", property(None, fail))
    with pytest.raises(
        DeviceError, match="kernel relu needs 1024000 bytes of shared memory a block, more than this"
    ):
        launcher.Launcher(FACTS)(launch_of(1, shared=1000 << 10), np.zeros(5, np.float32), 5)


def test_the_oldest_architecture_that_is_compiled_for_is_the_oldest_that_runs() -> None:
    major, minor = device.MINIMUM
    assert compiler.ARCHITECTURES[0] == f"sm_{major}{minor}"
