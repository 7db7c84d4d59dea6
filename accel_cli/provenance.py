"""Where and when a figure was measured. Nothing here may fail for want of a tool."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from accel_cli import __version__
from accel_cli.engines.planner import cores
from accel_cli.errors import DeviceError


def provenance(gpu: Any = None, programs: tuple[str, ...] = ()) -> dict[str, Any]:
    """Machine, versions, commit and date, as every file of figures begins.

    `gpu` are the cuda.device.DeviceFacts of a plan on CUDA, `programs` others that took part, each as name
    and version.
    """
    return {
        "machine": _machine(gpu),
        "versions": _versions(gpu, programs),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _machine(gpu: Any) -> dict[str, Any]:
    """The processor, the cores this process may use and, for a plan on CUDA, the GPU and its clocks."""
    facts: dict[str, Any] = {
        "cpu": _processor(),
        "cores": cores(),
        "system": platform.platform(),
        "gpu": None,
    }
    if gpu is not None:
        facts["gpu"] = {
            "name": gpu.name,
            "capability": ".".join(map(str, gpu.capability)),
            "processors": gpu.processors,
            "memory": gpu.memory,
            "l2": gpu.l2,
            **_clocks(gpu.index),
        }
    return facts


def _versions(gpu: Any, programs: tuple[str, ...]) -> dict[str, Any]:
    """Versions of what took part; None for what did not."""
    found: dict[str, Any] = {
        "accel": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "cupy": None,
        "driver": None,
        "runtime": None,
        "compiler": None,
    }
    if gpu is not None:
        from accel_cli.cuda.device import cupy

        found |= {
            "cupy": cupy().__version__,
            "driver": _dotted(gpu.driver),
            "runtime": _dotted(gpu.runtime),
            "compiler": _compiler(),
        }
    return found | dict(program.split(" ", 1) for program in programs)


def _compiler() -> str | None:
    """NVRTC and its version; None where there are but ready kernels."""
    from accel_cli.cuda.compiler import compiler_version

    try:
        return f"NVRTC {compiler_version()}"
    except DeviceError:
        return None


def commit() -> str | None:
    """The commit of the checkout that this code lies in, `+` if files differ from it; None outside of one.

    `ACCEL_COMMIT` overrides it.
    """
    if given := os.environ.get("ACCEL_COMMIT"):
        return given
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():  # installed: a repository further up is not ours
        return None
    head = _output("git", "-C", str(root), "rev-parse", "HEAD")
    changed = _output("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    return f"{head}+" if head and changed else head or None


def _output(*command: str) -> str:
    """What a program prints, or nothing if it is not here or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _clocks(index: int) -> dict[str, Any]:
    """The largest and the present clock rate in MHz and the power limit in W, if nvidia-smi says them."""
    from accel_cli.cuda.device import cupy

    keys = {"clocks.max.sm": "max_mhz", "clocks.sm": "mhz", "power.limit": "power_limit_w"}
    bus = cupy().cuda.Device(index).pci_bus_id  # CUDA and nvidia-smi may number the devices differently
    line = _output("nvidia-smi", "-i", bus, f"--query-gpu={','.join(keys)}", "--format=csv,noheader,nounits")
    values = [value.strip() for value in line.split(",")]
    return dict(zip(keys.values(), values, strict=True)) if len(values) == len(keys) else {}


def _blas() -> str | None:
    try:
        found: Any = np.show_config(mode="dicts")
        blas = found["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return None


def _dotted(version: int) -> str:
    """13000 as 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"
