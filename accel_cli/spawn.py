"""Processes of our own beside this one. They are spawned: neither CUDA nor threads survive a fork."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from typing import Any

from accel_cli.errors import AccelError, AccelWarning

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE = 5.0  # seconds that a process has to end
_SPAWN = multiprocessing.get_context("spawn")


class UnforeseenError(AccelError):
    """A process of ours failed in a way that was not foreseen."""


@dataclass(frozen=True)
class Warned:
    """Something that the user should know."""

    text: str
    own: bool  # whether it is an AccelWarning

    def show(self) -> None:
        """Warn of it in the parent."""
        warnings.warn(self.text, AccelWarning if self.own else UserWarning, stacklevel=3)


class Child:
    """A process that runs `target(*arguments)`, which begins with `settle_in`, seen from its parent."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._process = _SPAWN.Process(target=target, args=arguments, daemon=True)
        start(self._process, SIGNALS)
        assert self._process.pid is not None, "it has been started"
        self.number = self._process.pid

    def death(self) -> str:
        """How it ended."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"was ended by signal {-code} ({signal.strsignal(-code)})"
        return "does not answer" if code is None else f"ended with exit code {code}"

    def terminate(self) -> None:
        """Ask it to end at once."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def wait(self, until: float) -> None:
        """Until it has ended; from the time `until` (of time.monotonic) on, it is killed."""
        self._process.join(max(0.0, until - time.monotonic()))
        self._process.kill()
        self._process.join()


def start(process: SpawnProcess, blocked: Collection[signal.Signals]) -> None:
    """Start a process, with signals blocked until it has handlers of its own.

    In a thread: whichever takes a signal meanwhile, it is the main one that is interrupted, and would leave
    a process that has read half of what it is told.
    """

    def begin() -> None:
        resource_tracker.ensure_running()  # now: its start unblocks signals
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        process.start()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(begin).result()


def settle_in(*ignored: signal.Signals) -> None:
    """In such a process: end with the parent, whatever ends it, and ignore what is meant for the parent."""
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def pass_warnings_on(say: Callable[[Warned], None]) -> None:
    """In such a process: the parent shows the warnings, of any thread."""
    warnings.showwarning = lambda message, category, *_, **__: say(
        Warned(str(message), issubclass(category, AccelWarning))
    )


def known(error: Exception) -> AccelError:
    """An error as the parent knows it."""
    if isinstance(error, AccelError):
        return error
    if os.environ.get("ACCEL_DEBUG") == "1":
        traceback.print_exception(error)
    return UnforeseenError(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
