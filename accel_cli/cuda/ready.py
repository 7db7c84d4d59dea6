"""Kernels that `accel compile` made ahead of time: each is checked before it is loaded, or refused by name.

The driver loads a cubin with flipped bits without complaint, and one of other sources takes other
arguments. What is refused or not there is compiled, if there is a compiler.
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

from accel_cli import resources
from accel_cli.cuda.cache import Defines, KernelCache, file_name, kernel_key, sources_digest
from accel_cli.cuda.compiler import options
from accel_cli.cuda.manifest import ARCHITECTURE, Listed, Manifest, load_manifest
from accel_cli.errors import AccelWarning, DeviceError

_LARGEST = 64 << 20  # bytes of a cubin, a thousand times what one takes
_DAMAGED = "damaged: its sha256 is not what the manifest says"
_STALE = "stale: kernels_cu/ or the compiler's options have changed since"
_ABSENT = "not there"

Variant = tuple[str, Defines]


class ReadyKernels:
    """The kernels in a folder, for the device of a cache; the cache serves what they do not."""

    def __init__(self, folder: Path, cache: KernelCache) -> None:
        self._folder, self._cache = folder, cache
        self._sound: dict[Variant, tuple[Path, str]] = {}  # and the sha256
        self._refused: dict[Variant, str] = {}
        self._sort(load_manifest(folder))
        self._complain({variant: why for variant, why in self._refused.items() if variant not in self._sound})

    def cubin(self, name: str, defines: Defines) -> Path:
        """The file with the cubin of a kernel, sound as of now; DeviceError if it cannot be had here."""
        variant = name, defines
        if variant in self._sound:
            path, sha256 = self._sound[variant]
            if _digest(path) == sha256:  # a folder lives longer than a look at it
                return path
            del self._sound[variant]
            self._refused[variant] = _DAMAGED
            self._complain({variant: _DAMAGED})
        reason = self._refused.get(variant, _ABSENT)
        try:
            path = self._cache.cubin(name, defines)
        except DeviceError as error:
            constants = " ".join(f"{key}={value}" for key, value in defines)
            raise DeviceError(
                f"kernel {name} ({constants}) in {self._folder} is {reason}. It cannot be compiled here:"
                f" {error}. Else make the kernels of this plan anew with `accel compile`, where it can"
            ) from error
        if variant not in self._refused:
            self._warn(f"{self._folder} does not have all kernels of this plan")
        return path

    def _sort(self, manifest: Manifest) -> None:
        """Tell those that may be loaded from those that may not, and why."""
        here, sources = self._cache.architecture, sources_digest(resources.KERNELS)
        built = sorted({one.architecture for one in manifest.kernels})
        foreign = f"foreign: for {', '.join(built)}, and this device is {here}"
        some = any(runs_on(each, here) for each in built)
        for one in manifest.kernels:
            variant = one.kernel, one.defines
            if runs_on(one.architecture, here):
                path = self._folder / file_name(one.kernel, one.architecture, one.key)
                if one.key != _key(one, manifest, sources):
                    self._refused[variant] = _STALE
                elif _digest(path) != one.sha256:
                    self._refused[variant] = _DAMAGED
                else:
                    self._sound[variant] = path, one.sha256
            elif not some:
                self._refused[variant] = foreign

    def _complain(self, refused: dict[Variant, str]) -> None:
        """Say in one line which are refused, if any are."""
        names: dict[str, set[str]] = {}
        for (name, _), reason in refused.items():
            names.setdefault(reason, set()).add(name)
        if names:
            lists = "; ".join(f"{', '.join(sorted(those))} ({reason})" for reason, those in names.items())
            self._warn(f"kernels in {self._folder} are refused: {lists}")

    def _warn(self, what: str) -> None:
        warnings.warn(
            f"{what}. They are compiled where they are needed, if there is a compiler; make them anew with"
            " `accel compile`",
            AccelWarning,
            stacklevel=1,  # one place for all engines of a process, so that it is said once
        )


def runs_on(built: str, device: str) -> bool:
    """Whether a cubin for one architecture runs on a device of another: an older one of the same kind."""
    (wanted, special), (there, _) = _parts(built), _parts(device)
    return built == device or (not special and wanted // 10 == there // 10 and wanted <= there)


def _parts(architecture: str) -> tuple[int, str]:
    found = ARCHITECTURE.fullmatch(architecture)
    assert found is not None, architecture
    return int(found[1]), found[2]


def _key(one: Listed, manifest: Manifest, sources: str) -> str:
    """The key that a cubin would have, were it compiled now."""
    flags = options(one.architecture, one.defines)
    return kernel_key(sources, manifest.headers, manifest.compiler, one.kernel, flags)


def _digest(path: Path) -> str:
    """The sha256 of a cubin's file; none of what cannot be one."""
    try:
        usual = path.is_file() and path.stat().st_size <= _LARGEST
        return hashlib.sha256(path.read_bytes()).hexdigest() if usual else ""
    except OSError:
        return ""
