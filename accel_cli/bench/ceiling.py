"""What a GPU can do at best, measured: fp32 products (no TF32) and copies in its own memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_cli.bench.device_clock import device_times
from accel_cli.cuda.device import cupy, facts
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.tiles import Tiles
from accel_cli.errors import AccelError
from accel_cli.kernels.sgemm import sgemm
from accel_cli.numeric import compare

SIZE = 4096  # rows, columns and depth of the product
MEMORY = 1 << 30  # bytes that are copied: many times the second-level cache
_REPEATS = 10
_TOLERANCE = 1e-4  # fp32 stays far below it, TF32 does not


@dataclass(frozen=True)
class Ceiling:
    """Median rates: `flop` a second by `program` at `size`^3, `memory` bytes a second, read and written."""

    program: str
    size: int
    flop: float
    memory: float

    def as_json(self) -> dict[str, Any]:
        """As it is published."""
        tflop, gb = self.flop / 1e12, self.memory / 1e9
        return {
            "program": self.program,
            "size": self.size,
            "tflop_per_s": round(tflop, 3),
            "gb_per_s": round(gb, 1),
        }

    def __str__(self) -> str:
        return f"{self.flop / 1e12:.1f} TFLOP/s, {self.program} in fp32 at {self.size}^3"


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
        return Ceiling(program, size, flop, 2 * memory / device_times([_copy(memory)], _REPEATS).median)


def _product(index: int, a: Any, b: Any) -> tuple[str, Callable[[], Any]]:
    """The name of the program that multiplies, and the product of two square matrices by it."""
    module, y = cupy(), cupy().empty(a.shape, np.float32)
    try:
        module.matmul(a, b, out=y)
        return "cuBLAS", lambda: module.matmul(a, b, out=y)
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
