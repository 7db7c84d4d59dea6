"""`accel` in a process with a GPU that is none: python tests/fake_device.py run --device cuda ...

CuPy is the fake one, NVRTC writes into the file FAKE_NVRTC_LOG which kernels it compiled; without that
variable there is no NVRTC. A cubin names its kernel, which runs in numpy. Only plans whose every kernel
fake_cupy has in numpy can run here.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_cupy
import fake_streams
import pytest

from accel_cli.__main__ import main


class Module:
    """As cupy.RawModule."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def get_function(self, name: str) -> Any:
        assert self._path.read_bytes().startswith(b"cubin of %s.cu " % name.encode())
        kernel = getattr(fake_cupy, f"_{name}")

        def launch(grid: Any, block: Any, values: Any, shared_mem: int) -> None:
            fake_cupy.Stream.current().enqueue(lambda: kernel(*values))

        return launch


class Program:
    """As NVRTC's."""

    def __init__(self, source: str, path: str, headers: Any, names: Any) -> None:
        self.path, self.options = Path(path), ()

    def compile(self, options: tuple[str, ...]) -> None:
        self.options = tuple(each for each in options if not each.startswith("-I"))
        with open(os.environ["FAKE_NVRTC_LOG"], "a", encoding="utf-8") as log:
            log.write(f"{self.path.stem}\n")

    def cubin(self) -> bytes:
        return f"cubin of {self.path.name} {' '.join(self.options)}".encode()


def version() -> tuple[int, int]:
    if "FAKE_NVRTC_LOG" not in os.environ:
        raise RuntimeError("libnvrtc.so.13: cannot open shared object file")
    return 13, 0


def install() -> None:
    module = fake_cupy.module()
    module.__spec__ = ModuleSpec("cupy", None)
    module.RawModule = Module
    module.cuda.nvrtc = SimpleNamespace(
        getVersion=version,
        getSupportedArchs=lambda: (75, 80, 90, 100),
        createProgram=Program,
        compileProgram=Program.compile,
        getProgramLog=lambda program: "Used 10 registers",
        getCUBIN=Program.cubin,
        destroyProgram=lambda program: None,
        NVRTCError=RuntimeError,
    )
    sys.modules |= {"cupy": module, "cupy.cuda": module.cuda}
    fake_streams.fake_driver(pytest.MonkeyPatch())  # for as long as the process lives
    library = ctypes.CDLL
    ctypes.CDLL = lambda name, *rest: object() if name == "libcuda.so.1" else library(name, *rest)


install()  # in processes that this one starts, too
if __name__ == "__main__":
    main()
