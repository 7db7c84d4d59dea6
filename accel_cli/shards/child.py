"""The body of a worker process: shards come in through a pipe, what becomes of them goes out."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from accel_cli.errors import AccelError
from accel_cli.pipeline import Summary
from accel_cli.shards.job import Job
from accel_cli.shards.lock import Lock
from accel_cli.shards.worker import Draft, ShardWorker
from accel_cli.spawn import Warned, known, pass_warnings_on, settle_in

_TURN = 0.1  # seconds between two messages of progress


@dataclass(frozen=True)
class Loaded:
    """The model is there, and runs as this plan says."""

    plan: str


@dataclass(frozen=True)
class Progressed:
    """How far the shard under way is: sentences written and bytes read."""

    sentences: int
    read: int


@dataclass(frozen=True)
class Written:
    """The shard under way has all its rows, and its part is being synced; the next one may come."""


@dataclass(frozen=True)
class Finished:
    """The part that was being synced has its name."""

    summary: Summary


@dataclass(frozen=True)
class Failed:
    """The shard under way, or the one that was `syncing`, has no part, and the process ends."""

    error: AccelError
    syncing: bool = False


Message = Loaded | Progressed | Written | Finished | Warned | Failed


def work(job: Job, device: str, connection: Connection[Any, Any], lock: Lock) -> None:
    """Do shards until the connection ends, or the parent does. The lock is held for as long."""
    settle_in(signal.SIGINT)  # a terminal's Ctrl-C is for the parent, which ends us
    pass_warnings_on(lambda warned: _say(connection, warned))
    try:
        with ShardWorker(job, device) as worker:
            _say(connection, Loaded(worker.plan))
            _serve(worker, connection)
    except Exception as error:
        _say(connection, Failed(known(error)))
    connection.close()
    os._exit(0)  # the interpreter's own way out prints a storm of tracebacks after a CUDA error


def _serve(worker: ShardWorker, connection: Connection[Any, Any]) -> None:
    """What is being synced when a shard fails is finished before that is said."""
    syncing: Future[None] | None = None
    with ThreadPoolExecutor(1, "accel-sync") as thread:
        while True:
            try:
                shard = connection.recv()
            except EOFError:  # there is no more to do
                return
            draft = worker.write(shard, _Reporter(connection))
            if syncing is not None:
                syncing.result()
            _say(connection, Written())
            syncing = thread.submit(_finish, draft, connection)


def _finish(draft: Draft, connection: Connection[Any, Any]) -> None:
    """In a thread: give a part its name. If that fails the process ends, whatever else it does."""
    try:
        _say(connection, Finished(draft.finish()))
    except Exception as error:
        _say(connection, Failed(known(error), syncing=True))
        os._exit(0)


_SAYING = threading.Lock()  # warnings come from any thread


def _say(connection: Connection[Any, Any], message: Message) -> None:
    """Send a message; with nobody there to hear it, the process ends."""
    try:
        with _SAYING:
            connection.send(message)
    except OSError:
        os._exit(1)


class _Reporter:
    """Sends progress, but not with every batch."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._next = 0.0

    def __call__(self, sentences: int, read: int) -> None:
        if (now := time.monotonic()) >= self._next:
            _say(self._connection, Progressed(sentences, read))
            self._next = now + _TURN
