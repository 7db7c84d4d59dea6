"""What a GPU can do at best, measured: products in each precision, and copies in its own memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.bench.device_clock import device_times
from accel_cli.cuda.device import cupy, facts
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.tiles import Tiles
from accel_cli.errors import AccelError
from accel_cli.kernels.sgemm import sgemm
from accel_cli.numeric import compare

CUBLAS = "cuBLAS"
SIZE = 4096  # rows, columns and depth of the product
MEMORY = 1 << 30  # bytes that are copied: many times the second-level cache
_REPEATS = 10
_TOLERANCE = 1e-4  # fp32 stays far below it, TF32 does not


@dataclass(frozen=True)
class Ceiling:
    """Median rates: `flop` a second by `program` at `size`^3, `memory` bytes a second, read and written.

    `flop` is in fp32; `tensor` has the rates of tensor cores by precision, as far as cuBLAS is there.
    """

    program: str
    size: int
    flop: float
    memory: float
    tensor: dict[str, float] = field(default_factory=dict)

    def of(self, precision: str) -> float | None:
        """FLOP a second in a precision, None if unknown; what is exact to fp32 is measured by fp32."""
        alike = {"bf16": "fp16"}.get(precision, precision)
        return self.flop if precision in ("fp32", "fp32-split") else self.tensor.get(alike)

    def as_json(self) -> dict[str, Any]:
        """As it is published."""
        tflop, gb = self.flop / 1e12, self.memory / 1e9
        return {
            "program": self.program,
            "size": self.size,
            "tflop_per_s": round(tflop, 3),
            "gb_per_s": round(gb, 1),
            "tensor_tflop_per_s": {key: round(rate / 1e12, 1) for key, rate in self.tensor.items()},
        }

    def __str__(self) -> str:
        rates = {"fp32": self.flop, **self.tensor}
        told = ", ".join(f"{rate / 1e12:.1f} in {precision}" for precision, rate in rates.items())
        return f"{self.program} at {self.size}^3: TFLOP/s {told}"


def measure_ceiling(index: int, size: int = SIZE, memory: int = MEMORY) -> Ceiling:
    """The ceilings of device `index`: the product by cuBLAS where it is installed, else by our sgemm."""
    with cupy().cuda.Device(index), translated("measuring the ceiling"):
        random = np.random.default_rng(size)
        a = random.standard_normal((size, size), np.float32)
        b = random.standard_normal((size, size), np.float32) / np.float32(size**0.5)
        program, product = _product(index, cupy().asarray(a), cupy().asarray(b))
        found = cupy().asnumpy(product()[:1])
        worst = compare(found, a[:1].astype(np.float64) @ b, _TOLERANCE)
        if not worst.passed:
            raise AccelError(
                f"no ceiling, because {program} is not exact to fp32 here (TF32 is switched on?): {worst}"
            )
        flop = 2 * size**3 / device_times([product], _REPEATS).median
        copied = copy_rate(memory)
        tensor = _tensor(a, b) if program == CUBLAS else {}
        return Ceiling(program, size, flop, copied, tensor)


def copy_rate(memory: int = MEMORY) -> float:
    """Bytes a second of a copy of `memory` bytes within the current device: each is read and written."""
    return 2 * memory / device_times([_copy(memory)], _REPEATS).median


def _tensor(a: Floats, b: Floats) -> dict[str, float]:
    """cuBLAS's rates on tensor cores, with fp32 sums."""
    module, rates = cupy(), {}
    for precision, dtype in (("tf32", np.float32), ("fp16", np.float16)):
        x, w = (module.asarray(values.astype(dtype)) for values in (a, b))
        y = module.empty(a.shape, dtype)
        with tf32() if precision == "tf32" else nullcontext():
            seconds = device_times([partial(module.matmul, x, w, out=y)], _REPEATS).median
        rates[precision] = 2 * len(a) ** 3 / seconds
    return rates


@contextmanager
def tf32() -> Iterator[None]:
    """Let cuBLAS round fp32 operands to tf32 meanwhile; CuPy has no public switch but a variable."""
    linalg = importlib.import_module("cupy._core._routines_linalg")
    before = linalg.get_compute_type(np.float32)
    linalg.set_compute_type(np.float32, linalg.COMPUTE_TYPE_TF32)
    try:
        yield
    finally:
        linalg.set_compute_type(np.float32, before)


def _product(index: int, a: Any, b: Any) -> tuple[str, Callable[[], Any]]:
    """The name of the program that multiplies, and the product of two square matrices by it."""
    module, y = cupy(), cupy().empty(a.shape, np.float32)
    try:
        module.matmul(a, b, out=y)
        return CUBLAS, lambda: module.matmul(a, b, out=y)
    except Exception:  # CuPy raises what it likes where the library is missing
        run, size = Launcher(facts(index)), len(a)
        tile = Tiles(facts(index)).choose(size, size, size)

        def own() -> Any:
            sgemm(run, a, b, None, y, tile=tile)
            return y

        return "accel's sgemm", own


def _copy(size: int) -> Callable[[], Any]:
    source, target = (cupy().empty(size // 4, np.float32) for _ in range(2))

    def copy() -> None:
        target.data.copy_from_device_async(source.data, source.nbytes, cupy().cuda.get_current_stream())

    return copy
