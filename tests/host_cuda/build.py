"""Compiles an unchanged kernel file with g++ into a small program that runs its launches.

Three things are kept in the cache, each named by a digest of all that goes into it: the stand-in headers,
precompiled; the runtime; and a program for each kernel and set of defines.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from accel_cli.kernels.base import Launch
from accel_cli.resources import writable_cache

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"
# Asked for on import: later the tests have a cache of their own, which ends with them.
CACHE = writable_cache("host_cuda")

# The map keeps machine paths out of programs and their messages.
COMPILER = ("g++", "-std=c++17", f"-ffile-prefix-map={ROOT}{os.sep}=", "-iquote", ".")
INCLUDES = ("-I", str(INCLUDE))
# Uninitialised locals hold one pattern, so that no kernel is right by luck; nothing is fused; a value may be
# seen as another type, as in CUDA C.
KERNEL_FLAGS = (
    *("-O1", "-g", "-fno-omit-frame-pointer", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-ftrivial-auto-var-init=pattern", "-fno-sanitize-recover=all", "-fsanitize-sections=cuda_shared"),
    "-fsanitize=address,undefined,float-cast-overflow",
)
# The runtime writes guard zones and checks what it is told by itself: without checks it compiles sooner.
RUNTIME_FLAGS = ("-O1",)

_PARENTHESES = r"\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
_LAUNCH_BOUNDS = re.compile(r"__launch_bounds__\s*" + _PARENTHESES)
_CLUSTER = re.compile(r"__cluster_dims__\s*" + _PARENTHESES)
_DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\b([^;]*?)\[\s*\]\s*;")


class BuildError(Exception):
    """A kernel that g++ does not compile, with what it said."""


def program(folder: Path, launch: Launch) -> Path:
    """The program for a launch of a kernel of `folder`, built unless the cache has it."""
    name = launch.kernel.name
    defines = [f"-D{key}={value}" for key, value in launch.defines]
    headers, runtime = _headers(), _runtime()
    words = [name, *defines, headers.name, runtime.name]
    files = [folder / f"{name}.cu", *sorted(folder.glob("*.cuh")), Path(__file__)]
    target = CACHE / f"{name}-{_digest(words, files)}"
    if not target.exists():
        text = translate(_preprocess(files[0], ["-I", str(headers), *defines]), name)
        _compile(target, [*KERNEL_FLAGS, "-x", "c++-cpp-output", "-", "-x", "none", str(runtime)], text)
    return target


def translate(text: str, kernel: str) -> str:
    """Preprocessed CUDA C as C++: what macros alone cannot express.

    Shared memory gets a section of its own, in which the runtime finds and poisons it; arrays of dynamic
    shared memory all become the one that the runtime has; the launch bound and the cluster are kept for
    the runtime.
    """
    cluster = _CLUSTER.search(text)
    text = _CLUSTER.sub("", text)
    bound = re.search(_LAUNCH_BOUNDS.pattern + r"\s*(?:void\s+)?" + kernel + r"\s*\(", text)
    text = _LAUNCH_BOUNDS.sub("", text)
    text = _DYNAMIC_SHARED.sub(r'extern \1[] __asm__("host_cuda_dynamic_shared");', text)
    text = re.sub(r"\b__shared__\b", 'static __attribute__((section("cuda_shared")))', text)
    threads = bound[1] if bound else "1024"
    return text + (
        f"constexpr unsigned host_cuda_bounds[] = {{{threads}}};\n"
        f"constexpr dim3 host_cuda_cluster{{{cluster[1] if cluster else ''}}};\n"
        'static_assert(host_cuda_cluster.y * host_cuda_cluster.z == 1, "a cluster lies along x");\n'
        "const host_cuda::Entry host_cuda::entry ="
        f' host_cuda::Described<&::{kernel}>::entry("{kernel}", host_cuda_bounds[0], host_cuda_cluster.x);\n'
    )


def _preprocess(source: Path, options: list[str]) -> str:
    # Within an unnamed namespace, so that arrays in inline functions can share a section with the others.
    place = source.relative_to(ROOT) if source.is_relative_to(ROOT) else source
    text = f'#include "host_cuda.h"\nnamespace {{\n#include "{place}"\n}}\n'
    flags = [*KERNEL_FLAGS, "-fpch-preprocess", *options, *INCLUDES]
    return _run([*COMPILER, *flags, "-E", "-x", "c++", "-"], text)


@functools.cache
def _headers() -> Path:
    """The folder of the precompiled header, which every kernel begins with."""
    folder = CACHE / f"headers-{_digest(KERNEL_FLAGS, sorted(INCLUDE.rglob('*.*h')))}"
    target = folder / "host_cuda.h.gch"
    if not target.exists():
        _compile(target, [*KERNEL_FLAGS, *INCLUDES, "-x", "c++-header", str(INCLUDE / "host_cuda.h")])
    return folder


@functools.cache
def _runtime() -> Path:
    """The object file of the runtime, which every program is linked with."""
    sources = sorted(RUNTIME.glob("*.cpp"))
    headers = [*sorted(RUNTIME.glob("*.h")), *sorted((INCLUDE / "host_cuda").glob("*.h"))]
    target = CACHE / f"runtime-{_digest(RUNTIME_FLAGS, [*sources, *headers])}.o"
    if not target.exists():
        text = "".join(f'#include "{source.relative_to(ROOT)}"\n' for source in sources)
        _compile(target, [*RUNTIME_FLAGS, *INCLUDES, "-c", "-x", "c++", "-"], text)
    return target


def _compile(target: Path, arguments: list[str], text: str = "") -> None:
    """Compiles into a file of its own and moves it into place: two builds at once do no harm."""
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "made"
        _run([*COMPILER, *arguments, "-o", str(made)], text)
        made.replace(target)


def _run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise BuildError(done.stderr)
    return done.stdout


def _digest(words: Iterable[str], files: Iterable[Path]) -> str:
    whole = hashlib.sha256("\0".join([*words, _compiler_version()]).encode())
    for file in files:
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()[:20]


@functools.cache
def _compiler_version() -> str:
    if not shutil.which(COMPILER[0]):
        raise BuildError(
            "g++ is missing: the tests compile the CUDA kernels with it (Debian: apt install g++)"
        )
    return _run([COMPILER[0], "--version"])
