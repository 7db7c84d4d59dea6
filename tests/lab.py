"""The lab without a GPU: small sizes, the fake CuPy, and kernels in numpy or compiled for the CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import numpy as np
import pytest

from accel_cli.bench.lab import banks, experiments, memory, rates, report, roofline, softmax, threads
from accel_cli.commands.bench import command
from accel_cli.cuda import device
from accel_cli.engines.tuned import Product
from accel_cli.kernels.base import Launch
from accel_cli.kernels.lab_softmax import Method

COPY = 1e12  # bytes a second
SIZES = {
    memory: {"SIZES": (4096, 16384)},
    threads: {"SHAPE": (33, 1030)},
    banks: {"SHAPE": (40, 70)},
    softmax: {"LENGTHS": (4, 64), "VALUES": 512, "CHECKED": 128},
    roofline: {"PRODUCT": Product(40, 33, 20)},
    rates: {"FMA_ROUNDS": 16, "SHARED_ROUNDS": 2, "_BLOCKS": 1},
}


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The fake CuPy, which is given back, and experiments that take no time."""
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    module = fake_cupy.module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(fake_cupy.PROPERTIES, "multiProcessorCount", 1)
    monkeypatch.setitem(fake_cupy.PROPERTIES, "l2CacheSize", 2000)
    fake_streams.fake_driver(monkeypatch)
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(experiments, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(report, "provenance", lambda gpu: {"machine": {"gpu": gpu.name}})
    for part, sizes in SIZES.items():
        for name, size in sizes.items():
            monkeypatch.setattr(part, name, size)
    for part in (threads, banks, softmax, roofline):
        monkeypatch.setattr(part, "copy_rate", lambda: COPY)
    return module


class NumpyLauncher(fake_cupy.Launcher):
    """In numpy, whatever the constants; what kernels compute on the CPU is a matter of tests/kernels."""

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        kernel = _KERNELS[launch.kernel.name]
        values = launch.kernel.pack(arguments)
        constants = dict(launch.defines)
        fake_cupy.Stream.current().enqueue(lambda: kernel(constants, *values))


def _copy(constants: dict[str, int], x: Any, y: Any, *sizes: int) -> None:
    y[:] = x


def _transpose(constants: dict[str, int], x: Any, y: Any, *sizes: int) -> None:
    y[:] = x.T


def _softmax(constants: dict[str, int], x: Any, y: Any, *sizes: int) -> None:
    largest = 0 if constants["METHOD"] == Method.NAIVE else x.max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        powers = np.exp(x - largest)
        y[:] = powers / powers.sum(axis=1, keepdims=True)


def _product(constants: dict[str, int], a: Any, weight: Any, bias: Any, y: Any, *sizes: int) -> None:
    y[:] = a @ weight.T + bias


def _sgemm(constants: dict[str, int], a: Any, starts: Any, ids: Any, b: Any, *rest: Any) -> None:
    y = rest[3]
    y[:] = (a @ b)[:, : y.shape[1]]


def _fma(
    constants: dict[str, int], x: Any, y: Any, scale: float, shift: float, count: int, rounds: int
) -> None:
    values = x[:, None] + np.arange(constants["CHAINS"], dtype=np.float32)
    for _ in range(rounds):
        values = values * scale + shift
    y[:] = values.sum(axis=1)


def _shared(constants: dict[str, int], x: Any, y: Any, count: int, rounds: int) -> None:
    y[:] = np.resize(rounds * x.sum(axis=0), len(y))


_KERNELS = {
    "lab_copy": _copy,
    "lab_transpose": _transpose,
    "lab_softmax": _softmax,
    "lab_gemm": _product,
    "linear": _product,
    "gemm_tiled": _product,
    "sgemm": _sgemm,
    "lab_fma": _fma,
    "lab_shared": _shared,
}


def measured(suite: str, folder: Path) -> dict[str, Any]:
    """What `accel bench --suite` writes."""
    path = folder / f"{suite}.json"
    line = ["--suite", suite, "--device", "cuda:0", "--repeats", "2", "--json", str(path)]
    command.main(line, standalone_mode=False)
    document: dict[str, Any] = json.loads(path.read_text())
    return document
