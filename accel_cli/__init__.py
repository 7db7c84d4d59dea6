"""accel: a fast sentence classifier. `from accel_cli import Classifier` is the way in from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_cli.classifier import Classifier

__version__ = "0.1.0"
__all__ = ["Classifier", "__version__"]


def __getattr__(name: str) -> Any:
    # Classifier brings numpy along; `accel --help` must not wait for it.
    if name == "Classifier":
        from accel_cli.classifier import Classifier

        return Classifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
