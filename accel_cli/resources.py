"""Where the packaged files lie: beside the code in a wheel, at the top of a source checkout."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_ROOT = _PACKAGE if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent

CONFIGS = _ROOT / "configs"
KERNELS = _ROOT / "kernels_cu"
WEIGHTS = _ROOT / "weights"


def cache_folder() -> Path:
    """The cache folder: `ACCEL_CACHE_DIR`, else `accel` under the XDG cache home."""
    if chosen := os.environ.get("ACCEL_CACHE_DIR"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (Path(base) / "accel").expanduser()


def writable_cache(part: str) -> tuple[Path, str | None]:
    """The folder `part` of the cache, and a warning when a temporary one stands in for it."""
    wanted = cache_folder() / part
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted, None
    except (OSError, RuntimeError) as error:
        stand_in = Path(tempfile.mkdtemp(prefix="accel-cache-"))
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return stand_in, (
            f"cannot write to the cache folder {wanted} ({reason}); using {stand_in} for now."
            " Set ACCEL_CACHE_DIR to a writable folder to keep compiled kernels and weights."
        )
