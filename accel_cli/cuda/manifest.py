"""manifest.json of a folder of compiled kernels: what each cubin was made from, and what it must be.

It is read as what a stranger sends: no file is named in it, and nothing in it is believed before it is
checked. A cubin's file has the name that its kernel, architecture and key give it.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accel_cli import __version__
from accel_cli.cuda.cache import Defines, Entry
from accel_cli.cuda.compiler import options
from accel_cli.errors import DeviceError

MANIFEST = "manifest.json"
FORMAT = 1
_LARGEST = 16 << 20  # bytes, thousands of kernels

ARCHITECTURE = re.compile(r"sm_([1-9][0-9]{1,2})(a?)")
_VERSION = re.compile(r"[0-9.]{1,16}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Listed:
    """A cubin as the manifest lists it."""

    kernel: str
    architecture: str
    defines: Defines
    key: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """Whatever was compiled together: by one compiler, with the same headers of CUDA."""

    compiler: str
    headers: str
    kernels: tuple[Listed, ...]


def manifest_text(compiler: str, headers: str, made: Iterable[tuple[str, str, Defines, Entry]]) -> str:
    """The file for cubins, each with its kernel's name, its architecture and its constants."""
    kernels = [
        {
            "kernel": name,
            "architecture": architecture,
            "defines": dict(defines),
            "options": options(architecture, defines),
            "key": entry.key,
            "sha256": entry.sha256,
            **asdict(entry.usage),
        }
        for name, architecture, defines, entry in made
    ]
    top = {"format": FORMAT, "accel": __version__, "compiler": compiler, "headers": headers}
    return json.dumps({**top, "kernels": kernels}, indent=1) + "\n"


def load_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; DeviceError if it is not there or not what it must be."""
    path = folder / MANIFEST
    try:
        if not _is_file(path):
            raise DeviceError(
                f"{folder} holds no compiled kernels (there is no {MANIFEST}); make them with `accel compile"
                f" --output {folder}`, or leave --kernels out"
            )
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST >> 20} MiB")
        return _manifest(json.loads(content))
    except (OSError, ValueError, RecursionError) as error:  # json raises a ValueError of its own
        reason = getattr(error, "strerror", None) or str(error)
        raise DeviceError(
            f"{path} is no manifest of compiled kernels ({reason}); make them anew with `accel compile`,"
            " or name another folder"
        ) from error


def _is_file(path: Path) -> bool:
    """Whether there is a file, no folder or pipe. Unlike `Path.is_file`, OSError if it cannot be told."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _manifest(values: Any) -> Manifest:
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    if (found := values.get("format")) != FORMAT or isinstance(found, bool):
        raise ValueError(f"its format is {str(found)[:20]!r}, and this accel reads {FORMAT}")
    kernels = values.get("kernels")
    if not isinstance(kernels, list):
        raise ValueError("kernels: expected a list")
    listed = tuple(_listed(number, one) for number, one in enumerate(kernels))
    return Manifest(_text(values, "compiler", _VERSION), _text(values, "headers", _DIGEST), listed)


def _listed(number: int, values: Any) -> Listed:
    if not isinstance(values, dict):
        raise ValueError(f"kernels[{number}]: expected an object")
    where = f"kernels[{number}]."
    return Listed(
        _text(values, "kernel", _NAME, where),
        _text(values, "architecture", ARCHITECTURE, where),
        _defines(values.get("defines"), where),
        _text(values, "key", _DIGEST, where),
        _text(values, "sha256", _DIGEST, where),
    )


def _text(values: dict[str, Any], key: str, form: re.Pattern[str], where: str = "") -> str:
    value = values.get(key)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{where}{key}: {str(value)[:40]!r} is none")
    return value


def _defines(values: Any, where: str) -> Defines:
    if not isinstance(values, dict):
        raise ValueError(f"{where}defines: expected an object")
    for name, value in values.items():
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
        if not _CONSTANT.fullmatch(name) or not whole:
            raise ValueError(f"{where}defines: {name[:40]!r} is no constant, or no whole number")
    return tuple(values.items())
