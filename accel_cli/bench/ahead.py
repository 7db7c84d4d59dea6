"""Compiling kernels ahead of their use, in a process a core: one NVRTC compiles one kernel at a time."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType

from accel_cli.cuda.cache import KernelCache
from accel_cli.cuda.stopwatch import Constants
from accel_cli.engines.planner import cores
from accel_cli.kernels.base import Launch


class CompileAhead:
    """Fills the cache of compiled kernels; a context, at whose end nothing goes on."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture
        self._pool: ProcessPoolExecutor | None = None
        self._under_way: dict[tuple[str, Constants], Future[None]] = {}

    def __enter__(self) -> CompileAhead:
        # spawned, since CUDA does not survive a fork; Ctrl-C is the parent's to answer
        self._pool = ProcessPoolExecutor(
            cores(), multiprocessing.get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._pool is not None
        self._pool.shutdown(cancel_futures=True)

    def start(self, launches: Iterable[Launch]) -> None:
        """Begin with these, in their order, and with none of those before that have not begun yet."""
        assert self._pool is not None
        self._under_way = {key: job for key, job in self._under_way.items() if not job.cancel()}
        for launch in launches:
            variant = launch.kernel.name, launch.defines
            if variant not in self._under_way:
                self._under_way[variant] = self._pool.submit(_compile, self._architecture, *variant)

    def wait(self, launch: Launch) -> None:
        """Until a launch that was started is compiled; DeviceError if that fails."""
        self._under_way[launch.kernel.name, launch.defines].result()


def _compile(architecture: str, name: str, defines: Constants) -> None:
    """In another process."""
    KernelCache(architecture).cubin(name, defines)
