"""A folder of kernels as `accel compile` makes it, without a compiler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel_cli.cuda import cache
from accel_cli.cuda.cache import Defines, KernelCache
from accel_cli.cuda.manifest import MANIFEST, manifest_text
from accel_cli.cuda.ready import ReadyKernels
from accel_cli.errors import DeviceError

RELU, ARGMAX = ("relu", (("THREADS", 256),)), ("argmax", (("THREADS", 128), ("MORE", 1)))


class Folder:
    """A folder of kernels; `compiled` are those that were compiled since, by a compiler that can be taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.compiled: list[str] = []
        self.compiler = True
        path.mkdir()

    def make(self, *variants: tuple[str, Defines], architectures: tuple[str, ...] = ("sm_90a",)) -> None:
        made = []
        for architecture in architectures:
            cache = KernelCache(architecture)
            made += [(*one[:1], architecture, one[1], cache.entry(*one)) for one in variants]
        for *_, entry in made:
            (self.path / entry.path.name).write_bytes(entry.path.read_bytes())
        (self.path / MANIFEST).write_text(manifest_text("13.0", KernelCache("sm_90a").headers, made))
        self.compiled.clear()

    def compile_kernel(self, name: str, flags: tuple[str, ...], sources: Path) -> tuple[bytes, str]:
        self.compiled.append(name)
        return f"cubin of {name} with {flags}".encode(), ""

    def version(self) -> str:
        if not self.compiler:
            raise DeviceError("NVRTC, the compiler of CUDA, cannot be loaded")
        return "13.0"

    def file(self, name: str) -> Path:
        (found,) = self.path.glob(f"{name}-*.cubin")
        return found

    def ready(self, architecture: str = "sm_90a") -> ReadyKernels:
        return ReadyKernels(self.path, KernelCache(architecture))

    def edit(self, change: Callable[[dict[str, Any]], Any]) -> None:
        values = json.loads((self.path / MANIFEST).read_text())
        change(values)
        (self.path / MANIFEST).write_text(json.dumps(values))


def folder_of_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folder:
    """One with RELU and ARGMAX for sm_90a, and an empty cache; its compiler is the only one from now on."""
    made = Folder(tmp_path / "ready")
    monkeypatch.setattr(cache, "compile_kernel", made.compile_kernel)
    monkeypatch.setattr(cache, "compiler_version", made.version)
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "made-in"))
    made.make(RELU, ARGMAX)
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    return made
