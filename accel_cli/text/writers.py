"""Output files: stdout, or a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accel_cli.errors import OutputError


@contextmanager
def opened_output(path: str | None, overwrite: bool) -> Iterator[io.FileIO]:
    """stdout (for None or `-`), or a file that is renamed into place at the end, if all went well."""
    if path is None or path == "-":
        if sys.stdout is None:
            raise OutputError("stdout is closed; name a file with --output")
        with open(1, "wb", buffering=0, closefd=False) as stdout:
            yield stdout
        return
    if _is_special(path):
        with _opened(path) as special:
            yield special
        return
    with beside(path, overwrite) as temporary, _opened(temporary) as file:
        yield file


def claim(path: str, overwrite: bool) -> Path:
    """The file that an output goes to, links followed; OutputError if it may not be written."""
    if not path:
        raise OutputError("the name of an output is empty; name a file")
    if path.endswith(os.sep) or os.path.isdir(path):
        raise OutputError(f"{path} is a folder; name a file")
    if _is_special(path):
        raise OutputError(f"{path} is a pipe or a device, which cannot hold this output; name a file")
    if is_there(path) and not overwrite:
        raise OutputError(f"{path} exists already; say --overwrite to replace it, or name another file")
    return Path(os.path.realpath(path))


def is_there(path: str | Path) -> bool:
    """Whether there is something at an output's path; OutputError if its name is too long for anything."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise OutputError(f"cannot write {path}: {error.strerror}; name a shorter one") from error
        return False
    return True


@contextmanager
def beside(path: str, overwrite: bool) -> Iterator[str]:
    """A temporary file that becomes the output `path` at the end, if all went well, and else is gone."""
    target = claim(path, overwrite)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}-")
    except OSError as error:
        raise OutputError(
            f"cannot write into {target.parent}: {error.strerror}; name a file in another folder"
        ) from error
    os.close(handle)
    try:
        yield temporary
        try:
            _rename(temporary, target, overwrite)
        except FileExistsError:
            raise OutputError(
                f"{path} has come to exist meanwhile; say --overwrite to replace it, or name another file"
            ) from None
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}; name another file") from error
    finally:
        with contextlib.suppress(OSError):  # it may be renamed; else what failed before says more
            Path(temporary).unlink()


def write_all(file: io.FileIO, rows: bytes) -> None:
    """Write every byte, waiting where the output is a full pipe that would not wait by itself."""
    left = memoryview(rows)
    while left:
        count = file.write(left)
        if count is None:
            select.select([], [file], [])
        left = left[count or 0 :]


def _is_special(path: str) -> bool:
    """Whether the path is there and is a pipe or a device, which cannot be replaced by a rename."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _opened(path: str) -> io.FileIO:
    try:
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror}; name another file") from error


def _rename(temporary: str, target: Path, overwrite: bool) -> None:
    """Give a finished file its name, with the rights of the file it replaces or of any new one."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    os.chmod(temporary, _rights(target))
    if not overwrite:
        try:
            os.link(temporary, target)  # unlike a rename, never in the place of a file that is there
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.close(os.open(target, os.O_CREAT | os.O_EXCL))
    os.replace(temporary, target)


def _rights(target: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
