"""Compiling kernels ahead of their use, in a process a core: one NVRTC compiles one kernel at a time.

Each process has a pipe of its own to this one and shares nothing else, so none that is slow, dies or is
killed can hold up another one, or this one.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType

from accel_cli.cuda.cache import KernelCache
from accel_cli.cuda.stopwatch import Constants
from accel_cli.engines.planner import cores
from accel_cli.errors import AccelError
from accel_cli.kernels.base import Launch
from accel_cli.spawn import start

Variant = tuple[str, Constants]
Compile = Callable[[str, str, Constants], None]

_MOST = 32  # processes: each takes some hundred MB
_PATIENCE = 60.0  # seconds that a kernel may take, many times what the slowest one does
_GONE = 5.0  # seconds within which a process that was killed is gone
_LOOK = 0.5  # seconds from one look for late ones to the next


def compile_one(architecture: str, name: str, defines: Constants) -> None:
    """Into the cache; AccelError if that fails."""
    KernelCache(architecture).cubin(name, defines)


class CompileAhead:
    """Fills the cache of compiled kernels; a context, at whose end no process is left."""

    def __init__(self, architecture: str, work: Compile = compile_one, processes: int | None = None) -> None:
        self._architecture, self._work = architecture, work
        self._most = min(cores(), _MOST) if processes is None else processes
        self._workers: list[_Worker] = []
        self._done: dict[Variant, str] = {}  # what went wrong, or nothing

    def __enter__(self) -> CompileAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()

    def compiled(self, launches: Iterable[Launch], end: float) -> Iterator[tuple[Launch, str]]:
        """Each launch as soon as it is compiled, and what went wrong, or ""; until `end`, a monotonic time.

        They are begun in their order. What an earlier call began goes on; what it had not begun is forgotten.
        """
        waiting = {(launch.kernel.name, launch.defines): launch for launch in launches}
        while waiting and (now := time.monotonic()) < end:
            self._hand_out(waiting)
            ready = next((variant for variant in waiting if variant in self._done), None)
            if ready is None:
                self._collect(min(_LOOK, end - now))
            else:
                yield waiting.pop(ready), self._done[ready]
                self._collect(0)

    def _hand_out(self, variants: Iterable[Variant]) -> None:
        """Give those that nobody has begun to the processes that have nothing to do."""
        begun = {worker.variant for worker in self._workers}
        for variant in variants:
            if variant not in self._done and variant not in begun:
                worker = next((worker for worker in self._workers if worker.variant is None), None)
                if worker is None:
                    if len(self._workers) == self._most:
                        return
                    worker = _Worker(self._architecture, self._work)
                    self._workers.append(worker)
                worker.begin(variant)

    def _collect(self, seconds: float) -> None:
        """Take what is done within so many seconds, and give up what died or is late."""
        busy = {worker.pipe: worker for worker in self._workers if worker.variant is not None}
        answers = wait(list(busy), seconds)
        for pipe, worker in busy.items():
            assert worker.variant is not None
            if pipe in answers:
                fault = worker.answer()
            elif time.monotonic() - worker.begun > _PATIENCE:
                fault = f"its compilation takes more than {_PATIENCE:.0f} seconds"
                worker.end()
            else:
                continue
            self._done[worker.variant], worker.variant = fault, None
        self._workers = [worker for worker in self._workers if not worker.ended]


class _Worker:
    """A process that compiles, and what it is at."""

    def __init__(self, architecture: str, work: Compile) -> None:
        # spawned, since CUDA does not survive a fork
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.variant: Variant | None = None
        self.begun, self.ended = 0.0, False
        self._process = context.Process(target=_serve, args=(theirs, architecture, work), daemon=True)
        start(self._process, {signal.SIGINT})  # Ctrl-C is the parent's to answer
        theirs.close()

    def begin(self, variant: Variant) -> None:
        """Have a variant compiled; whether the process lives shows when it answers."""
        self.variant, self.begun = variant, time.monotonic()
        with suppress(OSError):
            self.pipe.send(variant)

    def answer(self) -> str:
        """What went wrong with the variant, or ""."""
        try:
            return str(self.pipe.recv())
        except (EOFError, OSError):
            self._process.join(_GONE)  # or its exit code would be that of being killed
            self.end()
            return f"the process that compiled it has died ({self._process.exitcode})"

    def end(self) -> None:
        """Whatever it is at; the cache is written by renaming, so nothing there is half of something."""
        self.ended = True
        self._process.kill()
        self._process.join(_GONE)
        self.pipe.close()


def _serve(pipe: Connection, architecture: str, work: Compile) -> None:
    """In the process: compile what comes, until the other end is closed or gone."""
    with suppress(EOFError, OSError):
        while True:
            variant = pipe.recv()
            try:
                work(architecture, *variant)
                pipe.send("")
            except AccelError as error:
                pipe.send(str(error))
