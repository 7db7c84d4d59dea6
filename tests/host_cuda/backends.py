"""Where the tests run a kernel: on this machine's CPU, or on a device. The test bodies are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from accel_cli.cuda.device import choose, cupy, facts, missing
from accel_cli.cuda.launcher import Launcher
from accel_cli.kernels.base import Runner
from accel_cli.resources import KERNELS
from host_cuda.runner import HostRunner


class Backend(Protocol):
    """Arrays of a backend come from `array` and go back by `numpy`; a runner takes nothing else."""

    name: str
    capability: tuple[int, int]

    def runner(self, folder: Path = KERNELS, order_dependent: bool = False) -> Runner:
        """Runs the kernels of a folder; `order_dependent` ones may sum floats in any order."""

    @property
    def run(self) -> Runner:
        """Runs the kernels of kernels_cu/."""
        return self.runner()

    def array(self, values: np.ndarray) -> Any: ...

    def numpy(self, array: Any) -> np.ndarray: ...


class HostBackend(Backend):
    name = "host"
    capability = (9, 0)  # it has the instructions of an H100

    def runner(self, folder: Path = KERNELS, order_dependent: bool = False) -> Runner:
        return HostRunner(folder, order_dependent)

    def array(self, values: np.ndarray) -> np.ndarray:
        return np.array(values, order="C")

    def numpy(self, array: np.ndarray) -> np.ndarray:
        return array


class CudaBackend(Backend):
    name = "cuda"

    def __init__(self) -> None:
        cupy().cuda.set_allocator(None)  # a pool would hide from memcheck where an array ends
        self._device = facts(int(choose("cuda").partition(":")[2]))
        self.capability = self._device.capability

    def runner(self, folder: Path = KERNELS, order_dependent: bool = False) -> Runner:
        return Launcher(self._device, folder)

    def array(self, values: np.ndarray) -> Any:
        return cupy().asarray(values, order="C")

    def numpy(self, array: Any) -> np.ndarray:
        return cupy().asnumpy(array)


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Both backends in turn; `cuda` is skipped, with the reason, on a machine without a device."""
    if request.param == "host":
        return HostBackend()
    if reason := missing():
        pytest.skip(f"no CUDA device: {reason}")
    return CudaBackend()
