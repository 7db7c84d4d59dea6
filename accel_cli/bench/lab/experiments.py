"""The experiments by name, and where they run."""

from __future__ import annotations

from collections.abc import Callable

from accel_cli.bench.lab import banks, memory, roofline, softmax, threads
from accel_cli.bench.lab.report import LabReport
from accel_cli.bench.lab.setting import Setting
from accel_cli.cuda.device import cupy, facts, index_of
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher

EXPERIMENTS: dict[str, Callable[[Setting], LabReport]] = {
    "memory": memory.measure,
    "threads": threads.measure,
    "banks": banks.measure,
    "softmax": softmax.measure,
    "roofline": roofline.measure,
}


def run(name: str, device: str, repeats: int, tell: Callable[[str], None]) -> LabReport:
    """One of EXPERIMENTS on `device` ("cuda:N").

    AccelError, before anything of a program is timed, if its result is wrong.
    """
    gpu = facts(index_of(device))
    with cupy().cuda.Device(gpu.index), translated(f"measuring {name}"):
        return EXPERIMENTS[name](Setting(device, gpu, Launcher(gpu), repeats, tell))
