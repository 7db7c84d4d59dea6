"""Host twin of kernels_cu/lab_gemm.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

KERNEL = Kernel(
    "lab_gemm",
    (
        Array("a", "float32"),
        Array("weight", "float32"),
        Array("bias", "float32"),
        Array("y", "float32", written=True),
        Scalar("rows", "int64"),
        Scalar("inputs", "int32"),
        Scalar("outputs", "int32"),
    ),
)


@dataclass(frozen=True)
class RegisterTile:
    """What a block and a thread of it make, and the step along k."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)


ONE_D = RegisterTile(64, 64, 16, 8, 1)
TWO_D = RegisterTile(128, 128, 16, 8, 8)


def variants() -> list[Launch]:
    """One launch for each tile."""
    return [geometry(1, 1, tile) for tile in (ONE_D, TWO_D)]


def geometry(rows: int, outputs: int, tile: RegisterTile) -> Launch:
    """A block for each tile of y [rows, outputs]."""
    values = (tile.rows, tile.columns, tile.depth, tile.thread_rows, tile.thread_columns)
    defines = tuple(zip(("BM", "BN", "BK", "TM", "TN"), values, strict=True))
    grid = (ceil_div(rows, tile.rows), ceil_div(outputs, tile.columns), 1)
    return Launch(KERNEL, defines, grid, (tile.threads, 1, 1))


def lab_gemm(run: Runner, a: Any, weight: Any, bias: Any, y: Any, tile: RegisterTile) -> None:
    """y [rows, outputs] = a [rows, inputs] times weight [outputs, inputs] transposed, plus bias."""
    (rows, inputs), outputs = a.shape, weight.shape[0]
    check_shape("lab_gemm weight", weight.shape, (outputs, inputs))
    check_shape("lab_gemm bias", bias.shape, (outputs,))
    check_shape("lab_gemm y", y.shape, (rows, outputs))
    run(geometry(rows, outputs, tile), a, weight, bias, y, rows, inputs, outputs)
