"""Tables on stdout: with lines and colour on a terminal, else plain and so wide that no figure is cut."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

_PLAIN_WIDTH = 170  # columns when nobody watches


def console() -> Console:
    """What prints on stdout."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _PLAIN_WIDTH, no_color=not terminal, highlight=False)


def table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table: columns of words to the left, then columns of numbers to the right."""
    made = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None)
    for name in words:
        made.add_column(name, no_wrap=True)
    for name in numbers:
        made.add_column(name, justify="right", no_wrap=True)
    return made
