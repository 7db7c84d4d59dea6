"""A CuPy for machines without a GPU: arrays of numpy, kernels in numpy, streams as lazy as they may be.

Whatever is enqueued on a stream runs only when somebody waits for it. So a result that is read too soon, or
a buffer that is used again too soon, gives wrong values here every time. What has no stand-in here runs as it
does in the tests of kernels, compiled for the CPU.
"""

from __future__ import annotations

import gc
import itertools
import weakref
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from fake_streams import Array, Event, PinnedMemory, Stream
from host_cuda.runner import HostRunner

from accel_cli.cuda.launcher import Loading
from accel_cli.kernels.base import Launch


class OutOfMemoryError(MemoryError):
    """As cupy.cuda.memory.OutOfMemoryError."""


class CUDARuntimeError(RuntimeError):
    """As cupy.cuda.runtime.CUDARuntimeError."""


class CUDADriverError(RuntimeError):
    """As cupy.cuda.driver.CUDADriverError."""


class DeviceMemory:
    """How much is taken, and how much there is."""

    taken = 0
    limit = 1 << 40

    @classmethod
    def take(cls, owner: Any, size: int) -> None:
        if cls.taken + size > cls.limit:
            raise OutOfMemoryError(f"Out of memory allocating {size} bytes (allocated {cls.taken})")
        cls.taken += size
        weakref.finalize(owner, cls.give, size)

    @classmethod
    def give(cls, size: int) -> None:
        cls.taken -= size

    @classmethod
    def held(cls) -> int:
        """What stays taken, after what earlier tests left in circles is gone."""
        if cls.taken:
            gc.collect()
        return cls.taken


class Launcher:
    """In place of accel_cli.cuda.launcher.Launcher: the same call, the kernels in numpy."""

    def __init__(self, device: Any, *, debug: str = "", kernels: str = "") -> None:
        self.loading = Loading()
        self.debug = debug

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        values = launch.kernel.pack(arguments)
        kernel = globals().get(f"_{launch.kernel.name}") or partial(HostRunner(), launch)
        Stream.current().enqueue(lambda: kernel(*values))


def _embedding(ids: Any, table: Any, x: Any, tokens: int, dimension: int) -> None:
    x[:] = table[ids]


def _conv1d(
    x: Any, weight: Any, bias: Any, offsets: Any, y: Any,
    dimension: int, filters: int, width: int, token_stride: int, channel_stride: int,
) -> None:  # fmt: skip
    strides = (4 * int(token_stride), 4 * int(channel_stride))
    for first, end in itertools.pairwise(offsets):
        start = x.reshape(-1)[first * dimension :]
        sentence = np.lib.stride_tricks.as_strided(start, (end - first, dimension), strides)
        for t in range(end - first - width + 1):
            y[first + t] = np.einsum("cdj,jd->c", weight, sentence[t : t + width]) + bias


def _relu(y: Any, count: int) -> None:
    np.maximum(y, 0, out=y)


def _getmax(y: Any, offsets: Any, pooled: Any, filters: int, width: int) -> None:
    for index, (first, end) in enumerate(itertools.pairwise(offsets)):
        pooled[index] = y[first : end - width + 1].max(axis=0)


def _concat(x: Any, y: Any, rows: int, columns: int, first: int, pitch: int) -> None:
    y[:, first : first + columns] = x


def _linear(x: Any, weight: Any, bias: Any, y: Any, rows: int, inputs: int, outputs: int) -> None:
    y[:] = x @ weight.T + bias


_gemm_tiled = _linear


def _softmax(x: Any, y: Any, rows: int, columns: int) -> None:
    exponents = np.exp(x - x.max(axis=1, keepdims=True))
    y[:] = exponents / exponents.sum(axis=1, keepdims=True)


def _scale_add(gate: Any, y: Any, m: Any, rows: int, experts: int, size: int) -> None:
    m[:] = np.einsum("re,ers->rs", gate, y)


def _argmax(x: Any, label: Any, rows: int, columns: int) -> None:
    label[:] = x.argmax(axis=1)


def empty(shape: Any, dtype: Any) -> Array:
    """Memory that nobody has written: NaN, or an impossible number."""
    kind = np.dtype(dtype)
    array = np.full(shape, np.nan if kind.kind == "f" else np.iinfo(kind).max, kind).view(Array)
    DeviceMemory.take(array, array.nbytes)
    return array


def asarray(values: np.ndarray) -> Array:
    array = np.array(values, order="C").view(Array)
    DeviceMemory.take(array, array.nbytes)
    return array


def asnumpy(values: Any) -> np.ndarray:
    Stream.current().synchronize()
    return np.array(values)


class Device:
    """A device as a context."""

    pci_bus_id = "0000:00:00.0"

    def __init__(self, index: int) -> None:
        self.index = index

    def __enter__(self) -> None: ...

    def __exit__(self, *failure: object) -> None: ...


class Nvtx:
    """Ranges of a profiler: `seen` holds the path of each in the order in which they began."""

    available = True

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[tuple[str, ...]] = []

    def RangePush(self, name: str) -> None:  # noqa: N802 - CuPy's names
        self.open.append(name)
        self.seen.append(tuple(self.open))

    def RangePop(self) -> None:  # noqa: N802
        self.open.pop()


PROPERTIES = {
    "name": b"Fake H200",
    "major": 9,
    "minor": 0,
    "multiProcessorCount": 132,
    "totalGlobalMem": 139 << 30,
    "l2CacheSize": 50 << 20,
}


def module() -> Any:
    """What `import cupy` gives: a new one, whose functions a test may replace."""
    pool = SimpleNamespace(free_all_blocks=lambda: None, free_bytes=lambda: 0)
    return SimpleNamespace(
        __version__="14.2.0",
        empty=empty,
        asarray=asarray,
        asnumpy=asnumpy,
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: pool,
        cuda=SimpleNamespace(
            Stream=Stream,
            Event=Event,
            Device=Device,
            get_current_stream=Stream.current,
            using_allocator=lambda allocator: nullcontext(),
            alloc_pinned_memory=PinnedMemory,
            get_elapsed_time=lambda begin, end: 1.0,
            nvtx=Nvtx(),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            driver=SimpleNamespace(CUDADriverError=CUDADriverError),
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                memoryTypeHost=1,
                pointerGetAttributes=lambda pointer: SimpleNamespace(type=int(PinnedMemory.holds(pointer))),
                getDeviceCount=lambda: 2,
                memGetInfo=lambda: (DeviceMemory.limit - DeviceMemory.taken, DeviceMemory.limit),
                getDeviceProperties=lambda index: PROPERTIES,
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13000,
            ),
        ),
    )
