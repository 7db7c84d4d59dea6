"""Files of an output folder: replaced whole, removed, made to last; what fails there is an OutputError."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accel_cli.errors import OutputError
from accel_cli.text.writers import beside

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space"),
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable"),
}


@contextmanager
def replaced(path: Path) -> Iterator[str]:
    """A temporary file that takes the place of `path` if all went well; a link there goes at once."""
    if os.path.islink(path):  # unlike methods of Path, these raise nothing
        remove(path)  # what it leads to is not of this folder
    if os.path.isdir(path):
        raise OutputError(f"{path} is a folder; move it away, then go on with --resume")
    try:
        with beside(str(path), overwrite=True) as temporary:
            yield temporary
    except OutputError as error:
        if isinstance(error.__cause__, OSError):
            raise _cannot_write(path, error.__cause__) from error.__cause__
        raise


def replace_text(path: Path, text: str) -> None:
    """Write a text, whole or not at all."""
    with replaced(path) as temporary, writing(path):
        Path(temporary).write_text(text, "utf-8")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """An OSError while a file of the folder is written, with the remedy of a run that can go on."""
    try:
        yield
    except OSError as error:
        raise _cannot_write(path, error) from error


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot remove {path}: {error.strerror}; move it away, or name another folder"
        ) from error


def sync(folder: Path) -> None:
    """Make the names in a folder last."""
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _cannot_write(path: Path, error: OSError) -> OutputError:
    remedy = _REMEDIES.get(error.errno or 0, "mend that")
    return OutputError(f"cannot write {path}: {error.strerror or error}; {remedy}, then go on with --resume")
