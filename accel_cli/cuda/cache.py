"""The cache of compiled kernels: a cubin a variant, and beside it what it must be and what it takes.

The key holds a digest of all of kernels_cu/ (an edited header must never meet an old cubin), the
options with the architecture, the compiler's version and which headers of CUDA there are. An entry
that fails its checksum is made again; the driver itself would load a damaged cubin without complaint.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from accel_cli import resources
from accel_cli.cuda.compiler import Usage, compile_kernel, compiler_version, headers_digest, options, usage
from accel_cli.errors import DeviceError

Defines = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Entry:
    """A compiled variant of a kernel: its file, the key and the sha256 of its bytes, and what it takes."""

    path: Path
    key: str
    sha256: str
    usage: Usage


def sources_digest(*folders: Path) -> str:
    """The sha256 over the names and contents of all files of CUDA C in some folders."""
    total = hashlib.sha256()
    for path in sorted({path for folder in folders for path in folder.glob("*.cu*")}):
        total.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return total.hexdigest()


def kernel_key(sources: str, headers: str, compiler: str, name: str, flags: tuple[str, ...]) -> str:
    """What a cubin was made from, as one digest: those of the sources and of CUDA's headers, and the rest."""
    return hashlib.sha256("\n".join((f"{sources} {headers}", name, compiler, *flags)).encode()).hexdigest()


def file_name(name: str, architecture: str, key: str) -> str:
    """The name of a cubin's file."""
    return f"{name}-{architecture}-{key[:24]}.cubin"


class KernelCache:
    """Cubins by kernel name and constants, for one architecture; kernels_cu/ unless told otherwise.

    `debug` is one of compiler.DEBUG. `compiled` counts what was not there. Nothing is asked of the
    compiler, nor of the file system, before a cubin is.
    """

    def __init__(self, architecture: str, sources: Path = resources.KERNELS, *, debug: str = "") -> None:
        self.architecture = architecture
        self.compiled = 0
        self._folders, self._debug = (sources, resources.KERNELS), debug

    @cached_property
    def folder(self) -> Path:
        """Where the cubins lie."""
        return resources.writable_cache("kernels")

    @cached_property
    def headers(self) -> str:
        """The digest of CUDA's headers."""
        return headers_digest()

    @cached_property
    def _sources(self) -> str:
        """The digest of the sources; with `debug` also where they lie, since a cubin then names its files."""
        place = f" {self._folders[0].resolve()}" if self._debug else ""
        return sources_digest(*self._folders) + place

    def cubin(self, name: str, defines: Defines) -> Path:
        """The file with the cubin of a kernel; compiled now unless a sound one is in the cache."""
        return self.entry(name, defines).path

    def entry(self, name: str, defines: Defines) -> Entry:
        """The same, with all that is known of it."""
        flags = options(self.architecture, defines, debug=self._debug)
        key = kernel_key(self._sources, self.headers, compiler_version(), name, flags)
        path = self.folder / file_name(name, self.architecture, key)
        if (found := _read(path, key)) is not None:
            return found
        if os.environ.get("ACCEL_ASSERT_NO_COMPILE") == "1":
            raise DeviceError(
                f"kernel {name} would be compiled now, but ACCEL_ASSERT_NO_COMPILE=1 forbids it"
            )
        cubin, log = compile_kernel(name, flags, self._folders[0])
        self.compiled += 1
        made = Entry(path, key, hashlib.sha256(cubin).hexdigest(), usage(log))
        _replace(path, cubin)
        _replace(_beside(path), json.dumps({"sha256": made.sha256, **asdict(made.usage)}).encode())
        return made


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


def _read(path: Path, key: str) -> Entry | None:
    """The entry in a file, if it is whole."""
    try:
        known = json.loads(_beside(path).read_bytes())
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        return Entry(path, key, sha256, Usage(**known)) if known.pop("sha256") == sha256 else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _replace(path: Path, content: bytes) -> None:
    """Write beside, then rename: of two processes that start at once, the later one wins whole."""
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
            beside = Path(folder) / path.name
            beside.write_bytes(content)
            os.replace(beside, path)
    except OSError as error:
        raise DeviceError(
            f"cannot write the kernel cache {path.parent} ({error.strerror}); make room there, or set"
            " ACCEL_CACHE_DIR to another folder"
        ) from error
