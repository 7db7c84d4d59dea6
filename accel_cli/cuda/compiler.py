"""Compiling kernels_cu/ with NVRTC into cubins, which needs no GPU and no CUDA toolkit."""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_cli import resources
from accel_cli.cuda.device import INSTALL, MINIMUM, cupy
from accel_cli.errors import DeviceError, UsageError

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")
_KINDS_SINCE = 90  # the first with instructions that no later one takes over, for which there is an "a"
# What a cubin tells tools: nothing, the line of each instruction, or variables as well, not optimised.
DEBUG = {"": (), "line": ("-lineinfo",), "full": ("--device-debug",)}


@dataclass(frozen=True)
class Usage:
    """What ptxas says a kernel takes. Bytes, and registers a thread."""

    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def _nvrtc() -> Any:
    cupy()
    from cupy.cuda import nvrtc

    try:
        nvrtc.getVersion()  # this loads the library
    except Exception as error:  # of CuPy's own making, and not the same in each of its versions
        raise DeviceError(
            f"NVRTC, the compiler of CUDA, cannot be loaded ({str(error).splitlines()[0]}): {INSTALL}"
        ) from error
    return nvrtc


def compiler_version() -> str:
    """NVRTC's version, as 13.0."""
    return ".".join(map(str, _nvrtc().getVersion()))


def architectures() -> list[str]:
    """Those that NVRTC compiles for and accel runs on; sm_90a is sm_90 with what no later one has."""
    oldest = 10 * MINIMUM[0] + MINIMUM[1]
    numbers = [number for number in _nvrtc().getSupportedArchs() if number >= oldest]
    return [
        f"sm_{number}{kind}" for number in numbers for kind in ("", "a") if not kind or number >= _KINDS_SINCE
    ]


def check_architecture(name: str) -> None:
    """UsageError that lists those there are, if it is none of them."""
    if name not in (known := architectures()):
        raise UsageError(
            f"--arch: {name!r} is no architecture that NVRTC {compiler_version()} compiles for and accel runs"
            f" on; there are {', '.join(known)}"
        )


def headers_digest() -> str:
    """A digest of the names and sizes of CUDA's headers: none of them says its whole version."""
    files = sorted(path for folder in _header_folders() for path in folder.glob("*.h*"))
    listing = "".join(f"{path.name} {path.stat().st_size}\n" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def options(architecture: str, defines: tuple[tuple[str, int], ...], *, debug: str = "") -> tuple[str, ...]:
    """NVRTC's options for one variant of a kernel; without the folders, which differ between machines."""
    # -ftz is CuPy's default for RawModule as well: denormals count as zero in fp32
    return (
        f"--gpu-architecture={architecture}",
        "--std=c++17",
        "-ftz=true",
        *DEBUG[debug],
        *(f"-D{name}={value}" for name, value in defines),
    )


def compile_kernel(name: str, flags: tuple[str, ...], sources: Path = resources.KERNELS) -> tuple[bytes, str]:
    """The cubin of `name`.cu in the folder `sources` and the compiler's log, or DeviceError with that log."""
    path = sources / f"{name}.cu"
    source = path.read_text("utf-8")
    folders = (sources, resources.KERNELS, *_header_folders())
    everything = (*flags, "--ptxas-options=-v", *(f"-I{folder}" for folder in folders))
    nvrtc = _nvrtc()
    program = nvrtc.createProgram(source, str(path), (), ())  # where a debugger looks for the source
    try:
        nvrtc.compileProgram(program, everything)
        log = nvrtc.getProgramLog(program)
        # CuPy drops the cubin's last byte, taking it for the end of a string
        return nvrtc.getCUBIN(program) + b"\0", log
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise DeviceError(
            f"kernel {name} does not compile for {' '.join(flags)} ({error}):\n{log}"
        ) from error
    finally:
        nvrtc.destroyProgram(program)


def usage(log: str) -> Usage:
    """Registers, shared memory and spills from the log of one kernel's compilation."""

    def total(pattern: str) -> int:
        return sum(int(number) for number in re.findall(pattern, log))

    return Usage(
        registers=total(r"Used (\d+) registers"),
        shared_bytes=total(r"(\d+) bytes smem"),
        stack_bytes=total(r"(\d+) bytes stack frame"),
        spill_bytes=total(r"(\d+) bytes spill stores") + total(r"(\d+) bytes spill loads"),
    )


def _header_folders() -> list[Path]:
    """Where the headers of the pip packages lie (cuda_fp16.h and its kin)."""
    found = []
    for entry in map(Path, sys.path):
        found += sorted(entry.glob("nvidia/cu1?/include")) + sorted(entry.glob("nvidia/cuda_runtime/include"))
    return found
