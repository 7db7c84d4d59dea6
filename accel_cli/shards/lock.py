"""One run at a time in an output folder."""

from __future__ import annotations

import fcntl
import os
import time
import warnings
from collections.abc import Callable
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from accel_cli.errors import AccelWarning, OutputError
from accel_cli.shards.files import writing

_PATIENCE = 5.0  # seconds: the workers of a run that was killed end within them
_TURN = 0.05  # seconds


class Lock:
    """A lock file, held from now on. Raises OutputError if another run holds it.

    Given to a process that is being spawned, it is held there too: it is free when the last holder
    has closed it or ended, however it ended.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror}; name another folder") from error
        try:
            _wait(self._handle, path)
            with writing(path):
                os.truncate(self._handle, 0)
                os.pwrite(self._handle, str(os.getpid()).encode(), 0)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hold it no longer."""
        os.close(self._handle)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _inherited, (DupFd(self._handle),)


def _inherited(handle: Any) -> Lock:
    lock = Lock.__new__(Lock)
    lock._handle = handle.detach()
    return lock


def _wait(handle: int, path: Path) -> None:
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > patience:
                holder = os.pread(handle, 20, 0).decode() or "unknown"
                raise OutputError(
                    f"another run (process {holder}) is at work in {path.parent.parent}; wait until it has"
                    " ended, or name another folder"
                ) from None
        except OSError as error:  # a file system without locks
            warnings.warn(
                f"cannot lock {path} ({error.strerror}); see that no other run writes there",
                AccelWarning,
                stacklevel=3,
            )
            return
        time.sleep(_TURN)
