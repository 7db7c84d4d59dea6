"""In place of the compiler, for the tests of compiling ahead: the other processes need not import pytest."""

from __future__ import annotations

import os
import signal
import sys
import time

from accel_cli.cuda.stopwatch import Constants
from accel_cli.errors import DeviceError


def work(architecture: str, name: str, defines: Constants) -> None:
    """The kernel's name says what happens."""
    if name == "endless":
        time.sleep(1e6)
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    if name == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if name == "leaving":
        sys.exit(3)
    if name == "wrong":
        raise DeviceError(f"{name} does not compile for {architecture}")
