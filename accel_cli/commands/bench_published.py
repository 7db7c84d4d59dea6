"""The end of every measurement: its tables are printed, and its figures written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from accel_cli.text.writers import opened_output


class Report(Protocol):
    """Figures as a file holds them."""

    def text(self) -> str:
        """The JSON as it stands in a file."""
        ...


R = TypeVar("R", bound=Report)


@dataclass(frozen=True)
class Publication:
    """Where figures go: the file `path`, which may be "-" for stdout, or nowhere."""

    path: str | None
    overwrite: bool

    def of(self, measure: Callable[[], R], show: Callable[[R], None]) -> R:
        """What was measured, printed unless the figures go to stdout, and written if a file is named.

        The file is opened first: minutes of measuring must not end in "no such folder".
        """
        with ExitStack() as stack:
            file = None
            if self.path is not None:
                file = stack.enter_context(opened_output(self.path, self.overwrite))
            found = measure()
            if self.path != "-":
                show(found)
            if file is not None:
                file.write(found.text().encode())
        return found
