"""Runs launches on the CPU: a process each, so that a fault ends that process and not the tests."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Launch
from accel_cli.resources import KERNELS
from host_cuda.build import ROOT, program

TIMEOUT = 60.0  # seconds for one launch; what takes longer waits for something that never comes

_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0:handle_sigbus=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class KernelFaultError(AssertionError):
    """What a kernel did wrong: the first line is the finding, the rest how it was found."""


@dataclass
class _Buffer:
    """A piece of memory of the launch: an array, or one that is passed several times."""

    name: str
    array: np.ndarray
    written: bool = False


@dataclass(frozen=True)
class HostRunner:
    """Runs the kernels of `folder` on numpy arrays, which it changes as the device would.

    `order_dependent` allows the orders of threads to give different results, as atomic sums of floats do.
    """

    folder: Path = KERNELS
    order_dependent: bool = False

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        """Run one launch in every order of threads, or raise KernelFaultError."""
        buffers: list[_Buffer] = []
        lines = [
            "grid {} {} {}".format(*launch.grid),
            "block {} {} {}".format(*launch.block),
            f"shared {launch.shared_bytes}",
            f"order_dependent {int(self.order_dependent)}",
            f"overlaps {int(launch.kernel.overlaps)}",
        ]
        for parameter, value in zip(launch.kernel.parameters, launch.kernel.pack(arguments), strict=True):
            if isinstance(parameter, Array):
                lines.append(f"argument buffer {_place(buffers, parameter, value)}")
            else:
                lines.append(f"argument scalar {value.nbytes} {int.from_bytes(value.tobytes(), 'little')}")
        sizes = [f"buffer {b.name} {b.array.nbytes} {'written' if b.written else 'read'}" for b in buffers]
        request = "\n".join([*sizes, *lines, "data\n"]).encode()
        result = _run(program(self.folder, launch), request + b"".join(b.array.tobytes() for b in buffers))
        for buffer in buffers:
            if buffer.written:
                size = buffer.array.nbytes
                buffer.array.reshape(-1).view(np.uint8)[:] = np.frombuffer(result[:size], np.uint8)
                result = result[size:]


def _place(buffers: list[_Buffer], parameter: Array, array: np.ndarray) -> int:
    """The number of the buffer for an array, a new one unless the same memory was passed before."""
    for place, known in enumerate(buffers):
        if (known.array.ctypes.data, known.array.nbytes) == (array.ctypes.data, array.nbytes):
            known.written |= parameter.written
            return place
        if np.may_share_memory(known.array, array):
            raise ValueError(f"{known.name} and {parameter.name} overlap in part: the host cannot run that")
    buffers.append(_Buffer(parameter.name, array, parameter.written))
    return len(buffers) - 1


def _run(path: Path, request: bytes) -> bytes:
    try:
        done = subprocess.run(
            [path],
            input=request,
            capture_output=True,
            timeout=TIMEOUT,
            cwd=ROOT,
            env=os.environ | _OPTIONS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KernelFaultError(
            f"{path.name}: still running after {TIMEOUT:.0f} s: it waits without a barrier"
        ) from None
    if done.returncode:
        raise KernelFaultError(_message(done.stderr.decode(errors="replace"), done.returncode))
    return done.stdout


def _message(text: str, status: int) -> str:
    """The runtime's own words first, which say where; then a sanitizer's report without our own frames."""
    report, _, own = text.rpartition("host_cuda: ")
    lines = (own + report.partition("\nShadow bytes")[0]).splitlines()
    kept = [line for line in lines if " in host_cuda::" not in line and "::Described<" not in line]
    return "\n".join([*kept, f"(exit status {status})"])
