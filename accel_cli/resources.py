"""Where the packaged files lie: beside the code in a wheel, at the top of a source checkout."""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
from pathlib import Path

from accel_cli.errors import AccelWarning

_PACKAGE = Path(__file__).resolve().parent
_ROOT = _PACKAGE if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent

CONFIGS = _ROOT / "configs"
KERNELS = _ROOT / "kernels_cu"
WEIGHTS = _ROOT / "weights"


def cache_folder() -> Path:
    """The cache folder: `ACCEL_CACHE_DIR`, else `accel` under the XDG cache home."""
    if chosen := os.environ.get("ACCEL_CACHE_DIR"):
        return Path(os.path.expanduser(chosen))
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "accel"


def writable_cache(part: str) -> Path:
    """The folder `part` of the cache; a temporary one, with an AccelWarning, if it cannot be written."""
    wanted = cache_folder() / part
    try:
        if wanted.parts[0].startswith("~"):
            raise OSError(errno.ENOENT, "the home folder is unknown")
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError as error:
        stand_in = Path(tempfile.mkdtemp(prefix="accel-cache-"))
        warnings.warn(
            f"cannot write to the cache folder {wanted} ({error.strerror}); using {stand_in} for now."
            " Set ACCEL_CACHE_DIR to a writable folder to keep compiled kernels",
            AccelWarning,
            stacklevel=2,
        )
        return stand_in
