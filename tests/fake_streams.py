"""Streams of the fake CuPy: what is enqueued runs when somebody waits for it, and not before."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from accel_cli.cuda import driver


class PinnedMemory(bytearray):
    """Page-locked memory: copies from it may run late."""

    living: ClassVar[weakref.WeakSet[PinnedMemory]] = weakref.WeakSet()

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self))
        PinnedMemory.living.add(self)

    __hash__ = object.__hash__

    @classmethod
    def holds(cls, address: int) -> bool:
        return any(memory.address <= address < memory.address + len(memory) for memory in cls.living)


class Pointer:
    """The memory of an array, as cupy.ndarray.data."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def copy_from_host_async(self, host: int, size: int, stream: Stream) -> None:
        if not PinnedMemory.holds(host):  # CUDA has read pageable memory when the call returns
            values = ctypes.string_at(host, size)
            stream.enqueue(lambda: ctypes.memmove(self.array.ctypes.data, values, size))
            return
        stream.enqueue(lambda: ctypes.memmove(self.array.ctypes.data, host, size))

    def copy_to_host_async(self, host: int, size: int, stream: Stream) -> None:
        if getattr(Stream._local, "graph", None) is not None:
            raise RuntimeError("the current stream is capturing, so D2H transfers are disallowed")
        stream.enqueue(lambda: ctypes.memmove(host, self.array.ctypes.data, size))

    def copy_from_device_async(self, source: Pointer, size: int, stream: Stream) -> None:
        stream.enqueue(lambda: ctypes.memmove(self.array.ctypes.data, source.array.ctypes.data, size))

    def memset_async(self, value: int, size: int, stream: Stream) -> None:
        stream.enqueue(lambda: ctypes.memset(self.array.ctypes.data, value, size))


class Array(np.ndarray):
    """An array on the device."""

    @property
    def data(self) -> Any:
        return Pointer(self)


class Stream:
    """Work in order; it runs when it is waited for, by one thread at a time."""

    _local = threading.local()
    running = threading.RLock()

    def __init__(self, non_blocking: bool = False) -> None:
        self.queue: deque[Callable[[], Any]] = deque()

    def __enter__(self) -> Stream:
        self._before = Stream.current()
        Stream._local.stream = self
        return self

    def __exit__(self, *failure: object) -> None:
        Stream._local.stream = self._before

    @staticmethod
    def current() -> Stream:
        if not hasattr(Stream._local, "stream"):
            Stream._local.stream = Stream()
        return Stream._local.stream

    def enqueue(self, work: Callable[[], Any]) -> None:
        """To be done later; while a graph is captured, by that graph, whatever the stream."""
        graph = getattr(Stream._local, "graph", None)
        (self.queue if graph is None else graph.work).append(work)

    def wait_event(self, event: Event) -> None:
        self.enqueue(event.synchronize)

    def begin_capture(self) -> None:
        Stream._local.graph = Graph()

    def end_capture(self) -> Graph:
        graph, Stream._local.graph = Stream._local.graph, None
        return graph

    def synchronize(self) -> None:
        with self.running:
            while self.queue:
                self.queue.popleft()()


def fake_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of accel_cli.cuda.driver."""
    monkeypatch.setattr(driver, "hold", lambda stream, seconds: stream.enqueue(lambda: time.sleep(seconds)))
    monkeypatch.setattr(driver, "reached", lambda event: True)  # whoever waits for it then makes it so


class Graph:
    """Work that was captured, in the order in which it was enqueued."""

    def __init__(self) -> None:
        self.work: list[Callable[[], Any]] = []

    def launch(self, stream: Stream) -> None:
        stream.queue.extend(self.work)


class Event:
    """A place in a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self._pending: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        if getattr(Stream._local, "graph", None) is None:
            self._pending = stream or Stream.current()
            self._pending.queue.append(self._reached)

    def _reached(self) -> None:
        self._pending = None

    def synchronize(self) -> None:
        with Stream.running:
            while self._pending is not None:
                self._pending.queue.popleft()()
