"""A worker in a process of its own, seen from its parent."""

from __future__ import annotations

from contextlib import suppress
from multiprocessing import Pipe

from accel_cli.shards.child import Message, work
from accel_cli.shards.job import Job
from accel_cli.shards.lock import Lock
from accel_cli.shards.shard import Shard
from accel_cli.spawn import Child


class WorkerProcess:
    """A process that was started, and our end of the pipe to it. It ends when its parent does."""

    def __init__(self, job: Job, device: str, lock: Lock) -> None:
        self.connection, theirs = Pipe()
        try:
            self._child = Child(work, job, device, theirs, lock)
        finally:
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
        return f"its worker {self._child.death()}"

    def end(self, *, kill: bool) -> None:
        """Begin to end it: at once, or when it has done what it does."""
        self.connection.close()
        if kill:
            self._child.terminate()

    def wait(self, until: float) -> None:
        """Until it has ended; from the time `until` (of time.monotonic) on, it is killed."""
        self._child.wait(until)
