"""Products from naive to tiled in registers: what their intensity predicts under measured ceilings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from accel_cli.bench.ceiling import copy_rate
from accel_cli.bench.lab.rates import fma_rate, shared_rate
from accel_cli.bench.lab.report import Column, LabReport, Row, times
from accel_cli.bench.lab.setting import KERNEL_CLOCK, Setting
from accel_cli.bench.measure import short
from accel_cli.bench.operands import Matrices, Operands, poison, traffic
from accel_cli.cuda.device import cupy
from accel_cli.engines.tuned import Product
from accel_cli.errors import AccelError
from accel_cli.kernels import gemm_tiled
from accel_cli.kernels.base import Runner
from accel_cli.kernels.lab_gemm import ONE_D, TWO_D, lab_gemm
from accel_cli.kernels.linear import linear
from accel_cli.kernels.sgemm import sgemm
from accel_cli.kernels.sgemm_tile import DEFAULT
from accel_cli.numeric import compare

PRODUCT = Product(4096, 4096, 4096)
COLUMNS = (
    Column("program", "program"),
    Column("bound_by", "bound by"),
    Column("flop_per_byte", "FLOP/B, memory", ".3g"),
    Column("flop_per_shared_byte", "shared", ".3g"),
    Column("predicted_tflop_per_s", "predicted TFLOP/s", ".2f"),
    Column("tflop_per_s", "TFLOP/s", ".2f"),
    Column("percent_of_predicted", "% of predicted", ".1f"),
    Column("percent_of_fma", "% of fma rate", ".1f"),
    Column("us", "us", ",.1f"),
    Column("us_min", "fastest", ",.1f"),
    Column("us_max", "slowest", ",.1f"),
    Column("max_error", "max error", ".1e"),
)
_TOLERANCE = 1e-4  # of results about 1
Call = Callable[[Operands], None]


@dataclass(frozen=True)
class Roof:
    """Measured ceilings, a second: operations, bytes of the device's memory, bytes of shared memory."""

    fma: float
    memory: float
    shared: float

    def over(self, program: Program) -> tuple[float, str]:
        """The most operations a second that a program can do, and what bounds it."""
        rates = {"fma": self.fma, "memory": program.memory * self.memory}
        if program.shared is not None:
            rates["shared memory"] = program.shared * self.shared
        name = min(rates, key=lambda name: rates[name])
        return rates[name], name

    def as_json(self) -> Row:
        """As it is published; the ridge is the intensity from which on memory bounds nothing."""
        return {
            "fma_tflop_per_s": short(self.fma / 1e12),
            "copy_gb_per_s": short(self.memory / 1e9),
            "shared_gb_per_s": short(self.shared / 1e9),
            "ridge_flop_per_byte": short(self.fma / self.memory),
        }


@dataclass(frozen=True)
class Program:
    """A product, and its operations for a byte that threads load from the device's and from shared memory."""

    name: str
    call: Call
    memory: float
    shared: float | None = None


def intensity(rows: int, columns: int) -> float:
    """Operations for a byte loaded, where a column of `rows` values meets a row of `columns`, in fp32."""
    return 2 * rows * columns / (4 * (rows + columns))


def programs(run: Runner) -> list[Program]:
    """From naive to the one that the engine takes."""
    tile = gemm_tiled.TILE
    registers = {"1-D register tile": ONE_D, "2-D register tile": TWO_D}
    return [
        Program("naive", partial(_plain, run, linear), intensity(1, 1)),
        Program("tiled", partial(_plain, run, gemm_tiled.gemm_tiled), intensity(tile, tile), intensity(1, 1)),
        *(
            Program(
                name,
                partial(_plain, run, partial(lab_gemm, tile=tile)),
                intensity(tile.rows, tile.columns),
                intensity(tile.thread_rows, tile.thread_columns),
            )
            for name, tile in registers.items()
        ),
        Program(
            "sgemm",
            partial(_sgemm, run),
            intensity(DEFAULT.rows, DEFAULT.columns),
            intensity(DEFAULT.thread_rows, DEFAULT.thread_columns),
        ),
    ]


def measure(setting: Setting) -> LabReport:
    """Measure the ceilings, then check and time every program at PRODUCT."""
    setting.tell("ceilings")
    roof = Roof(fma_rate(setting), copy_rate(), shared_rate(setting))
    matrices = Matrices(PRODUCT, setting.gpu.l2)
    rows = [_row(setting, program, matrices, roof) for program in programs(setting.run)]
    facts = {
        "product": str(PRODUCT),
        "flop_per_byte_at_best": short(PRODUCT.flop / traffic(PRODUCT)),
        **roof.as_json(),
    }
    return LabReport("roofline", setting.device, setting.gpu, KERNEL_CLOCK, facts, rows, COLUMNS)


def _row(setting: Setting, program: Program, matrices: Matrices, roof: Roof) -> Row:
    setting.tell(program.name)
    operands = matrices.copies[0]
    poison(operands.y)
    program.call(operands)
    cupy().cuda.get_current_stream().synchronize()
    found = compare(matrices.found(operands), matrices.exact(), _TOLERANCE)
    if not found.passed:
        raise AccelError(f"not timed, because {program.name} is wrong: {found}")
    timing = setting.timed(partial(program.call, operands))
    rate, (predicted, bound) = PRODUCT.flop / timing.median, roof.over(program)
    return {
        "program": program.name,
        "flop_per_byte": short(program.memory),
        "flop_per_shared_byte": None if program.shared is None else short(program.shared),
        "bound_by": bound,
        "predicted_tflop_per_s": short(predicted / 1e12),
        **times(timing),
        "tflop_per_s": short(rate / 1e12),
        "percent_of_predicted": short(100 * rate / predicted),
        "percent_of_fma": short(100 * rate / roof.fma),
        "max_error": found.error,
    }


def _plain(run: Runner, product: Callable[..., Any], operands: Operands) -> None:
    product(run, operands.a[0], operands.weight[0], operands.bias, operands.y[0])


def _sgemm(run: Runner, operands: Operands) -> None:
    sgemm(run, operands.a[0], operands.packed[0], None, operands.y[0], tile=DEFAULT)
