"""Files that a benchmark makes: texts as long as is asked for, and rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path

from accel_cli.errors import OutputError, UsageError


@dataclass(frozen=True)
class TextFile:
    """A file of lines, one sentence each."""

    path: Path
    sentences: int
    bytes: int


def text_file(path: Path, lines: Sequence[bytes], size: int) -> TextFile:
    """A file of all lines as often as they fit into `size` bytes, or else of as many as fit.

    Raises UsageError if not even the first one fits, and OutputError if there is no room.
    """
    if size <= len(lines[0]):
        raise UsageError(f"--bytes {size}: the first sentence alone takes {len(lines[0]) + 1}; say more")
    once = sum(map(len, lines)) + len(lines)
    return repeated(path, filled(lines, min(size, once)), max(1, size // once))


def repeated(path: Path, block: bytes, count: int) -> TextFile:
    """A file of `count` times a block of whole lines; OutputError if there is no room."""
    size = count * len(block)
    with new_file(path, f"{size} bytes of text") as file:
        for _ in range(count):
            file.write(block)
    return TextFile(path, count * block.count(b"\n"), size)


def filled(lines: Sequence[bytes], size: int) -> bytes:
    """At most `size` bytes of whole lines, of which the first fits; the first ones again behind the last."""
    once = b"".join(line + b"\n" for line in lines)
    whole = once * max(1, size // len(once))
    return whole if len(whole) <= size else whole[: whole.rindex(b"\n", 0, size) + 1]


@contextmanager
def new_file(path: Path, what: str) -> Iterator[BufferedWriter]:
    """A new file for `what`; an error of the file system as OutputError."""
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise OutputError(
            f"cannot write {what} to be measured ({error}); name a folder with more room in TMPDIR"
        ) from error
