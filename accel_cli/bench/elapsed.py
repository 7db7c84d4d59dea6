"""Messages with the time that has passed: long work shows where it goes."""

from __future__ import annotations

import time
from collections.abc import Callable


def elapsed(tell: Callable[[str], None]) -> Callable[[str], None]:
    """`tell` with the seconds from now on before each message."""
    begin = time.monotonic()
    return lambda message: tell(f"{time.monotonic() - begin:6.1f} s  {message}")
