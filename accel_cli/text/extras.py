"""Packages that only some inputs and outputs need, imported when one of those is met."""

from __future__ import annotations

import importlib
from typing import Any

from accel_cli.errors import AccelError


def imported(module: str, extra: str, what: str) -> Any:
    """The module; AccelError says that `what` needs it, and which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AccelError(
            f'{what} needs the extra `{extra}` ({error}); in a checkout, say pip install ".[{extra}]"'
        ) from error
