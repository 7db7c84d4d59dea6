"""What the tiles of the tensor cores' two kernels, mma_gemm and wgmma_gemm, have in common."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from accel_cli.kernels.base import Array, Kernel, Launch, Scalar
from accel_cli.kernels.sgemm import Epilogue
from accel_cli.kernels.tensor_operands import Operands, Output


class Source(IntEnum):
    """Where the rows of A come from."""

    MATRIX = 0
    WINDOWS = 1
    IDS = 2
    PACKED = 3


class TensorTile(Protocol):
    """What a block of one of the kernels makes, and how."""

    @property
    def kernel(self) -> Kernel:
        """The kernel it is a tile of."""
        ...

    @property
    def rows(self) -> int:
        """Rows of a block."""
        ...

    @property
    def columns(self) -> int:
        """Columns of a block."""
        ...

    @property
    def threads(self) -> int:
        """Threads of a block."""
        ...

    def takes(self, source: Source) -> bool:
        """Whether the kernel can read such rows."""
        ...

    def constants(self) -> tuple[tuple[str, int], ...]:
        """The kernel's own defines."""
        ...

    def shared_bytes(self, split: bool) -> int:
        """Shared memory of a block."""
        ...

    def grid(self, rows: int, columns: int, batch: int) -> tuple[int, int, int]:
        """The blocks for a batch of products [rows, columns]."""
        ...


def tensor_kernel(name: str, *architectures: str, overlaps: bool = False) -> Kernel:
    """The parameters of both kernels. Operands and y are bytes to them; of which type, the defines say."""
    integers = ("columns", "depth", "a_row", "packed_row", "stride", "column", "dimension")
    distances = ("a_low", "packed_low", "y_low", "a_step", "packed_step", "y_step")
    return Kernel(
        name,
        (
            Array("a", "uint8"),
            Array("starts", "int32"),
            Array("ids", "int32"),
            Array("packed", "uint8"),
            Array("bias", "float32"),
            Array("gate", "float32"),
            Array("owners", "int32"),
            Array("y", "uint8", written=True),
            Scalar("rows", "int64"),
            *(Scalar(word, "int32") for word in integers),
            *(Scalar(word, "int64") for word in distances),
            Scalar("scale", "float32"),
        ),
        architectures,
        overlaps,
    )


def geometry(
    tile: TensorTile,
    operands: Operands,
    rows: int,
    columns: int,
    batch: int = 1,
    source: Source = Source.MATRIX,
    epilogue: Epilogue = Epilogue.STORE,
    bias: bool = True,
    experts: int = 1,
    output: Output = Output.FP32,
) -> Launch:
    """The blocks for a batch of products [rows, columns], or ValueError for rows it cannot read."""
    if not tile.takes(source):
        raise ValueError(f"{tile.kernel.name} reads no rows of the kind {source.name}")
    defines = (
        *(("TYPE", int(operands.type)), ("SPLIT", int(operands.split)), ("PROMOTE", operands.promote)),
        *(("ROWS", int(source)), ("EPILOGUE", int(epilogue)), ("BIAS", int(bias)), ("EXPERTS", experts)),
        *(("OUTPUT", int(output)), *tile.constants()),
    )
    grid, block = tile.grid(rows, columns, batch), (tile.threads, 1, 1)
    return Launch(tile.kernel, defines, grid, block, tile.shared_bytes(operands.split))
