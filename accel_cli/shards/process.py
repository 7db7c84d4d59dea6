"""A worker in a process of its own, seen from its parent."""

from __future__ import annotations

import multiprocessing
import signal
import time
from contextlib import suppress
from multiprocessing import resource_tracker

from accel_cli.shards.child import SIGNALS, Message, work
from accel_cli.shards.job import Job
from accel_cli.shards.lock import Lock
from accel_cli.shards.shard import Shard

_SPAWN = multiprocessing.get_context("spawn")  # CUDA does not survive a fork, nor do threads
PATIENCE = 5.0  # seconds that a worker has to end


class WorkerProcess:
    """A process that was started, and our end of the pipe to it. It ends when its parent does."""

    def __init__(self, job: Job, device: str, lock: Lock) -> None:
        resource_tracker.ensure_running()  # now: its start unblocks signals
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=work, args=(job, device, theirs, lock), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until it has handlers of its own
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def give(self, shard: Shard) -> None:
        """Have a shard done. A process that has died says so when it is heard."""
        with suppress(OSError):
            self.connection.send(shard)

    def hear(self) -> Message | None:
        """Wait for the next message; None if the process has died."""
        try:
            message: Message = self.connection.recv()
        except (EOFError, OSError):
            return None
        return message

    def death(self) -> str:
        """How the process ended."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"its worker was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"its worker ended with exit code {code}"

    def end(self, *, kill: bool) -> None:
        """Begin to end it: at once, or when it has done what it does."""
        self.connection.close()
        if kill:
            self._process.terminate()

    def wait(self, until: float) -> None:
        """Until it has ended; from the time `until` (of time.monotonic) on, it is killed."""
        self._process.join(max(0.0, until - time.monotonic()))
        self._process.kill()
        self._process.join()
