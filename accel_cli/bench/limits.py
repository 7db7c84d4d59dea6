"""What a device can do of each kind of work at best, measured here: what a stage is held against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from accel_cli.bench.ceiling import MEMORY, SIZE, measure_ceiling
from accel_cli.bench.device_clock import device_times
from accel_cli.bench.lab.rates import fma_rate
from accel_cli.bench.lab.setting import Setting
from accel_cli.bench.measure import short, usual
from accel_cli.cuda.buffers import empty, page_locked, zero
from accel_cli.cuda.device import DeviceFacts, cupy, facts
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.cuda.stopwatch import Stopwatch
from accel_cli.errors import AccelError
from accel_cli.kernels.base import Runner
from accel_cli.kernels.relu import relu
from accel_cli.kernels.reread import PIECE, THREADS, reread

FP32, LAUNCHES = "fp32", "launches"
L1, L2, MEMORY_BYTES, PCIE_IN, PCIE_OUT = "L1", "L2", "memory", "PCIe in", "PCIe out"
_BYTES = (L1, L2, MEMORY_BYTES, PCIE_IN, PCIE_OUT)
_REPEATS = 5
_BLOCKS = 8  # of a processor: all the threads that it takes
_ROUNDS = 64  # pieces that a block reads
_L2_SHARE = 4  # of the level-2 cache the part that is reread: half of it may be far away
_LAUNCHES = 20

# How much of each resource a piece of work takes: bytes, FLOP, launches.
Demand = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """How much is measured with: side of the products, bytes copied on the device and over PCIe."""

    product: int = SIZE
    memory: int = MEMORY
    pcie: int = 1 << 27


@dataclass(frozen=True)
class Limits:
    """`rates`: the most of each resource that can be had in a second; `how` each was measured."""

    rates: dict[str, float]
    how: dict[str, str]

    def as_json(self) -> list[dict[str, Any]]:
        """As it is published: rates a second."""
        return [
            {"resource": name, "per_s": short(rate), "measured_by": self.how[name]}
            for name, rate in self.rates.items()
        ]


def tensor(precision: str) -> str:
    """The resource that products of tensor cores take: bf16 and split operands are as fast as fp16."""
    return f"tensor {'tf32' if precision == 'tf32' else 'fp16'}"


def rate_text(resource: str, per_s: float) -> str:
    """A rate as it is shown."""
    if resource == LAUNCHES:
        return f"{per_s:,.0f}"
    if resource in _BYTES:
        return f"{per_s / 1e9:,.1f} GB/s"
    return f"{per_s / 1e12:,.2f} TFLOP/s" if per_s >= 1e12 else f"{per_s / 1e9:,.1f} GFLOP/s"


def device_limits(index: int, sizes: Sizes | None = None) -> Limits:
    """Of CUDA device `index`; takes a few seconds."""
    sizes = sizes or Sizes()
    ceiling = measure_ceiling(index, sizes.product, sizes.memory)
    rates = {tensor(name): rate for name, rate in ceiling.tensor.items()}
    how = dict.fromkeys(rates, f"{ceiling.program}, a product {ceiling.size}^3")
    rates[MEMORY_BYTES], how[MEMORY_BYTES] = ceiling.memory, "a copy in the device's memory, read and written"
    with cupy().cuda.Device(index), translated("measuring what the device can do"):
        gpu = facts(index)
        run = Launcher(gpu)
        setting = Setting(f"cuda:{index}", gpu, run, _REPEATS, lambda message: None)
        rates[FP32], how[FP32] = fma_rate(setting), "multiply-adds of registers"
        for name in (L1, L2):
            rates[name], how[name] = _cache(run, gpu, near=name == L1), "a buffer read again and again"
        for name in (PCIE_IN, PCIE_OUT):
            rates[name] = _over_pcie(sizes.pcie, into=name == PCIE_IN)
            how[name] = "a copy of page-locked memory"
        rates[LAUNCHES], how[LAUNCHES] = _launches(run), "a kernel with nothing to do, between two events"
    cupy().get_default_memory_pool().free_all_blocks()
    cupy().get_default_pinned_memory_pool().free_all_blocks()
    return Limits(rates, how)


def _cache(run: Runner, gpu: DeviceFacts, *, near: bool) -> float:
    """Bytes a second of the level-1 caches if `near`, else of the level-2 cache."""
    blocks = _BLOCKS * gpu.processors
    pieces = blocks if near else max(1, gpu.l2 // _L2_SHARE // (4 * PIECE))
    words, sums = empty(pieces, PIECE, dtype="uint32"), empty(blocks, THREADS, dtype="uint32")
    zero(words)
    step = 0 if near else blocks % pieces
    seconds = device_times([partial(reread, run, words, sums, step, _ROUNDS, near=near)], _REPEATS).median
    if cupy().asnumpy(sums).any():
        raise AccelError("a buffer of zeros was read as something else; please report this")
    return 4 * PIECE * blocks * _ROUNDS / seconds


def _over_pcie(size: int, *, into: bool) -> float:
    """Bytes a second between page-locked memory and the device."""
    host, array = page_locked((size,), "uint8"), empty(size, dtype="uint8")

    def copy() -> None:
        stream = cupy().cuda.get_current_stream()
        enqueue = array.data.copy_from_host_async if into else array.data.copy_to_host_async
        enqueue(host.ctypes.data, size, stream)

    return size / device_times([copy], _REPEATS).median


def _launches(run: Runner) -> float:
    """Launches a second, as a stopwatch sees them: what no kernel can be faster than."""
    watch, value = Stopwatch(run), empty(1)
    zero(value)
    relu(watch, value)  # loads it
    with watch.measuring() as spans:
        with watch.around("nothing"):
            pass
        for _ in range(_LAUNCHES):
            relu(watch, value)
        cupy().cuda.get_current_stream().synchronize()
    return 1 / median(span.seconds for span in spans if span.name != "nothing")


def host_limits(size: int = 1024, memory: int = 1 << 27) -> Limits:
    """Of one thread of this host, as the CPU engine's stages are timed: numpy's product, and a copy."""
    random = np.random.default_rng(size)
    a = random.standard_normal((size, size), np.float32)
    source, target, y = np.zeros(memory, np.uint8), np.zeros(memory, np.uint8), np.empty_like(a)
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        flop = 2 * size**3 / usual(lambda: np.matmul(a, a, out=y), _REPEATS)
    copied = 2 * memory / usual(lambda: np.copyto(target, source), _REPEATS)
    how = {
        FP32: f"numpy, a product {size}^3 on one thread",
        MEMORY_BYTES: "a copy by one thread, read and written",
    }
    return Limits({FP32: flop, MEMORY_BYTES: copied}, how)
