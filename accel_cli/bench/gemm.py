"""`accel bench --suite gemm`: our matrix products, from naive to tuned, beside cuBLAS's in fp32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from accel_cli.bench.ceiling import CUBLAS, measure_ceiling
from accel_cli.bench.device_clock import times_in_turns
from accel_cli.bench.gemm_report import GemmReport, GemmRow, beside_cublas
from accel_cli.bench.operands import Matrices, Operands, poison
from accel_cli.cuda.device import DeviceFacts, cupy, facts, index_of
from accel_cli.cuda.errors import translated
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.tiles import Tiles
from accel_cli.engines.tuned import Product, numbers
from accel_cli.errors import AccelError
from accel_cli.kernels.base import Runner
from accel_cli.kernels.gemm_tiled import gemm_tiled
from accel_cli.kernels.linear import linear
from accel_cli.kernels.sgemm import sgemm, sgemm_batched
from accel_cli.kernels.sgemm_tile import DEFAULT, Tile
from accel_cli.kernels.skinny import WIDEST, skinny
from accel_cli.numeric import compare

TOLERANCE = 1e-4  # of results about 1: sums in fp32 stay far below it, TF32 does not
# Round ones; those of the school's network at 2,048 sentences (its widths, Toom-Cook, experts separate and
# folded, fully connected layers); ragged ones.
PRODUCTS = (
    Product(4096, 4096, 4096),
    Product(16384, 4096, 4096),
    *(Product(2048 * (17 - width), 1024, width * 4096) for width in (3, 5, 7, 9)),
    Product(2048, 4096, 4096, batch=18),
    Product(2048, 8192, 4096),
    Product(2048, 4096, 4096),
    Product(2048, 1024, 2048),
    Product(2048, 512, 1024),
    Product(2048, 2, 512),
    Product(4001, 4003, 4007),
    Product(1000, 777, 333),
    Product(333, 261, 77),
)
_HOPELESS = 0.1  # seconds of a call that is timed once: of the naive product at most sizes, of others at few
Call = Callable[[Operands], None]


def run(
    device: str, repeats: int, tell: Callable[[str], None], products: tuple[Product, ...] = PRODUCTS
) -> GemmReport:
    """Check, then measure every program at every product on `device` ("cuda:N").

    AccelError, before anything of a product is timed, if a program's result is wrong.
    """
    gpu = facts(index_of(device))
    ceiling = measure_ceiling(gpu.index)
    with cupy().cuda.Device(gpu.index), translated("measuring matrix products"):
        suite = _Suite(gpu, repeats, tell)
        rows = [row for product in products for row in suite.rows(product)]
    return GemmReport(device, ceiling, rows, gpu)


def find_cublas(tell: Callable[[str], None]) -> bool:
    """Whether CuPy finds cuBLAS here; if not, tell how to get it."""
    try:
        one = cupy().empty((4, 4), "float32")
        cupy().matmul(one, one)
    except Exception as error:  # CuPy raises what it likes where the library is missing
        tell(
            f"CuPy has no cuBLAS here, so there is nothing to compare with ({_line(error)}); install the"
            " library, with `pip install nvidia-cublas` for CUDA 13, nvidia-cublas-cu12 for CUDA 12"
        )
        return False
    return True


class _Suite:
    """The programs on one device."""

    def __init__(self, gpu: DeviceFacts, repeats: int, tell: Callable[[str], None]) -> None:
        self._gpu, self._repeats, self._tell = gpu, repeats, tell
        self._launch, self._tiles = Launcher(gpu), Tiles(gpu)
        self._cublas = find_cublas(tell)

    def rows(self, product: Product) -> list[GemmRow]:
        """A row for each program, those that give the same result."""
        self._tell(f"{product}")
        matrices = Matrices(product, self._gpu.l2)
        first: Any = None  # all of the first program's result
        programs, errors = self._programs(product), []
        for name, (call, _) in programs.items():
            errors.append(_error(f"{name} at {product}", matrices, call, first))
            first = matrices.copies[0].y.copy() if first is None else first
        calls = [[partial(call, copy) for copy in matrices.copies] for call, _ in programs.values()]
        timings = times_in_turns(calls, self._repeats, hopeless=_HOPELESS)
        rows = []
        for (name, (_, tile)), timing, error in zip(programs.items(), timings, errors, strict=True):
            shown = None if tile is None else numbers(tile)
            rows.append(GemmRow(product, name, shown, len(matrices.copies), timing, error))
        return beside_cublas(rows)

    def _programs(self, product: Product) -> dict[str, tuple[Call, Tile | None]]:
        """What computes a product, and the tile that it takes if it has any."""
        run = self._launch
        chosen = self._tiles.choose(product.rows, product.columns, product.depth, product.batch)
        programs: dict[str, tuple[Call, Tile | None]] = {
            "naive": (partial(_each, linear, run), None),
            "tiled": (partial(_each, gemm_tiled, run), None),
            "sgemm": (partial(_sgemm, run, DEFAULT), DEFAULT),
            "sgemm, tuned": (partial(_sgemm, run, chosen), chosen),
        }
        if product.columns <= WIDEST:  # what the engine takes for so few columns
            del programs["sgemm, tuned"]
            programs["skinny"] = (partial(_each, skinny, run), None)
        if self._cublas:
            programs[CUBLAS] = (_matmul, None)
        return programs


def _each(product: Callable[..., None], run: Runner, operands: Operands) -> None:
    for a, weight, y in zip(operands.a, operands.weight, operands.y, strict=True):
        product(run, a, weight, operands.bias, y)


def _sgemm(run: Runner, tile: Tile, operands: Operands) -> None:
    if len(operands.a) > 1:
        sgemm_batched(run, operands.a, operands.packed, operands.y, tile=tile)
    else:
        sgemm(run, operands.a[0], operands.packed[0], None, operands.y[0], tile=tile)


def _matmul(operands: Operands) -> None:
    if len(operands.a) > 1:
        cupy().matmul(operands.a, operands.b, out=operands.y)
    else:
        cupy().matmul(operands.a[0], operands.b[0], out=operands.y[0])


def _error(what: str, matrices: Matrices, call: Call, first: Any) -> float:
    """The largest error of some rows against float64; AccelError if it or a distance to `first` is large."""
    worst = 0.0
    stream = cupy().cuda.get_current_stream()
    for copy in matrices.copies:
        poison(copy.y)
        call(copy)
        stream.synchronize()
        found = compare(matrices.found(copy), matrices.exact(), TOLERANCE)
        apart = 0.0 if first is None else float(abs(copy.y - first).max())
        if not found.passed or not apart <= 2 * TOLERANCE:
            cause = str(found) if not found.passed else f"it is {apart:g} from the naive product"
            hint = "; fp32 without TF32 is asked for, so unset CUPY_TF32" if what.startswith(CUBLAS) else ""
            raise AccelError(f"not timed, because {what} is wrong: {cause}{hint}")
        worst = max(worst, found.error)
    return worst


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
