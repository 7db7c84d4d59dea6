"""Who uses a CUDA device when: one thread of an engine at a time enqueues, and others may wait beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Generic

import numpy as np

from accel_cli.batches import P
from accel_cli.cuda.device import cupy
from accel_cli.cuda.errors import translated
from accel_cli.cuda.ranges import named
from accel_cli.engines.base import NOT_FINITE
from accel_cli.engines.cuda_slots import CudaPart
from accel_cli.errors import DeviceError


class Turns:
    """The turns of an engine's threads on its device."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._lock = threading.RLock()

    @contextmanager
    def using(self, doing: str) -> Iterator[None]:
        """Hold the engine, make its device the current one, and translate CUDA's errors."""
        with self._lock, cupy().cuda.Device(self._index), translated(doing), named(doing):
            yield

    def holding(self) -> AbstractContextManager[bool]:
        """Hold the engine, for those whose device is the current one already."""
        return self._lock

    @contextmanager
    def on_device(self, doing: str) -> Iterator[None]:
        """The same without holding the engine, for those who only wait."""
        with cupy().cuda.Device(self._index), translated(doing), named(doing):
            yield


class CudaTicket(Generic[P]):
    """A batch on its way through the slots."""

    def __init__(self, turns: Turns, parts: Sequence[CudaPart[P]]) -> None:
        self._turns, self._parts = turns, parts

    def result(self) -> P:
        """Wait for all parts, while others use the engine."""
        with self._turns.on_device("waiting for a batch"):
            for part in self._parts:
                part.finish()
            with self._turns.holding():
                found = [part.fetch() for part in self._parts]
        predictions = type(found[0]).concatenate(found)
        if not np.isfinite(predictions.logits).all():
            raise DeviceError(NOT_FINITE)
        return predictions
