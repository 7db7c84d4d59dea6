"""What `accel run` writes: rows to an output, and last lines to stderr."""

from __future__ import annotations

import errno
from collections.abc import Callable
from io import FileIO

from accel_cli.commands.options import say
from accel_cli.errors import OutputError
from accel_cli.pipeline import Summary
from accel_cli.text.writers import write_all


class PipeClosed(Exception):
    """Whoever read the output wants no more of it."""


def writer(file: FileIO, name: str) -> Callable[[bytes], None]:
    """Writes whole chunks; an error names the output."""

    def write(rows: bytes) -> None:
        try:
            write_all(file, rows)
        except BrokenPipeError:
            raise PipeClosed from None
        except OSError as error:
            remedy = "raise its limit (`ulimit -f`)" if error.errno == errno.EFBIG else "free some space"
            raise OutputError(
                f"cannot write to {name}: {error.strerror}; {remedy} or name another file"
            ) from error

    return write


def report(summary: Summary, before: int = 0) -> None:
    """What was done, and what was odd; `before` of the sentences were there when the run began."""
    new = summary.sentences - before
    rate = new / summary.seconds if summary.seconds else 0.0
    there = f"; {before} more were there" if before else ""
    say(f"{new} sentences in {summary.seconds:.3f} s, {rate:.0f} sentences/s{there}")
    say("labels: " + ", ".join(f"{name} {count}" for name, count in summary.labels.items()))
    say(
        f"truncated {summary.truncated}, blank {summary.blank}, replaced bytes {summary.replaced_bytes},"
        f" failed records {summary.failed}"
    )
    if summary.replaced_bytes:
        say("some bytes were not UTF-8; they count as parts of words and print as U+FFFD")
    if summary.first_failure:
        say(f"the first failed record: {summary.first_failure}")
