"""The cache of compiled kernels: a cubin and its checksum a variant, checked on every read.

The key holds a digest of all of kernels_cu/ (an edited header must never meet an old cubin), the
options with the architecture, the compiler's version and which headers of CUDA there are. An entry
that fails its checksum is made again; the driver itself would load a damaged cubin without complaint.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from accel_cli import resources
from accel_cli.cuda.compiler import compile_kernel, compiler_version, headers_digest, options
from accel_cli.errors import DeviceError


def sources_digest(*folders: Path) -> str:
    """The sha256 over the names and contents of all files of CUDA C in some folders."""
    total = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.cu*")):
        total.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return total.hexdigest()


class KernelCache:
    """Cubins by kernel name and constants, for one architecture; kernels_cu/ unless told otherwise.

    `debug` is one of compiler.DEBUG.
    """

    def __init__(self, architecture: str, sources: Path = resources.KERNELS, *, debug: str = "") -> None:
        self.architecture = architecture
        self.folder = resources.writable_cache("kernels")
        self._sources, self._debug = sources, debug
        self._digest = f"{sources_digest(sources, resources.KERNELS)} {headers_digest()}"
        if debug:  # a cubin then names its source files
            self._digest += f" {sources.resolve()}"

    def cubin(self, name: str, defines: tuple[tuple[str, int], ...]) -> Path:
        """The file with the cubin of a kernel; compiled now unless a sound one is in the cache."""
        flags = options(self.architecture, defines, debug=self._debug)
        key = hashlib.sha256("\n".join((self._digest, name, compiler_version(), *flags)).encode()).hexdigest()
        path = self.folder / f"{name}-{self.architecture}-{key[:24]}.cubin"
        if _sound(path):
            return path
        if os.environ.get("ACCEL_ASSERT_NO_COMPILE") == "1":
            raise DeviceError(
                f"kernel {name} would be compiled now, but ACCEL_ASSERT_NO_COMPILE=1 forbids it"
            )
        cubin, _ = compile_kernel(name, flags, self._sources)
        _replace(path, cubin)
        _replace(_checksum(path), hashlib.sha256(cubin).hexdigest().encode())
        return path


def _checksum(path: Path) -> Path:
    return path.with_suffix(".sha256")


def _sound(path: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest().encode() == _checksum(path).read_bytes()
    except OSError:
        return False


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
