"""Host twin of kernels_cu/mma_gemm.cu: which tiles there are. The products are in tensor_gemm.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accel_cli.kernels.base import Kernel, Launch, ceil_div
from accel_cli.kernels.sgemm import WEIGHED, Epilogue
from accel_cli.kernels.sgemm_tile import shared_limit
from accel_cli.kernels.tensor_operands import ROW_BYTES, Operands, Type
from accel_cli.kernels.tensor_tile import Source, geometry, tensor_kernel

KERNEL = tensor_kernel("mma_gemm")


@dataclass(frozen=True)
class MmaTile:
    """What a block and a warp of it make, and how many steps along k are held at once."""

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    stages: int

    kernel: ClassVar[Kernel] = KERNEL

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows // self.warp_rows * (self.columns // self.warp_columns) * 32

    def takes(self, source: Source) -> bool:
        """Whether the kernel can read such rows."""
        return source != Source.PACKED

    def constants(self) -> tuple[tuple[str, int], ...]:
        """The kernel's own defines."""
        values = (self.rows, self.columns, self.warp_rows, self.warp_columns, self.stages)
        return tuple(zip(("BM", "BN", "WM", "WN", "STAGES"), values, strict=True))

    def shared_bytes(self, split: bool) -> int:
        """Shared memory of a block."""
        return self.stages * (2 if split else 1) * (self.rows + self.columns) * ROW_BYTES

    def grid(self, rows: int, columns: int, batch: int) -> tuple[int, int, int]:
        """A block for each tile of [rows, columns], in the kernel's own order; z is the batch."""
        return (ceil_div(rows, self.rows) * ceil_div(columns, self.columns), 1, batch)

    def legal(self, operands: Operands, shared_limit: int, source: Source = Source.MATRIX) -> bool:
        """Whether the kernel takes it, on a device that gives a block so many bytes of shared memory."""
        if self.rows % self.warp_rows or self.columns % self.warp_columns:
            return False
        apart, registers = self.threads // 8, self._registers(operands, source)
        return (
            self.takes(source)
            and self.warp_rows % 16 == 0
            and self.warp_columns % 16 == 0
            and self.threads % 64 == 0
            and self.threads <= 512
            and self.rows % apart == 0
            and self.columns % apart == 0
            and self.stages >= 2
            and registers <= 255
            and registers * self.threads <= 65536
            and self.shared_bytes(operands.split) <= shared_limit
        )

    def _registers(self, operands: Operands, source: Source) -> int:
        """About what a thread takes: sums, two sets of operands, places of rows, of words' rows as well."""
        down, across = self.warp_rows // 16, self.warp_columns // 8
        sums = down * across * 4 * (2 if operands.promote else 1)
        fragments = 2 * (down * 4 + across * 2)
        a_rows, b_rows = (length * 8 // self.threads for length in (self.rows, self.columns))
        gathered = 2 * a_rows + 8 if source == Source.IDS else 0
        return sums + fragments + a_rows + b_rows + gathered + 40


DEFAULT = MmaTile(128, 128, 64, 32, 3)
LARGE = MmaTile(128, 256, 64, 64, 3)
SMALL = MmaTile(64, 64, 32, 32, 4)  # for products with too few tiles of 128 for all processors
TIGHT = MmaTile(64, 64, 32, 32, 3)  # split operands on devices that give a block 99 KiB
SHALLOW = MmaTile(128, 128, 64, 32, 2)  # split operands take twice the memory, of which an A100 has less

_BLOCKS = ((128, 256), (256, 128), (128, 128), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64))
_WARPS = ((64, 64), (64, 32), (32, 64), (32, 32))


def candidates(operands: Operands, source: Source, capability: tuple[int, int]) -> list[MmaTile]:
    """All legal tiles for a device, large ones first: what tuning chooses from."""
    tiles = (MmaTile(*block, *warp, stages) for block in _BLOCKS for warp in _WARPS for stages in (3, 4, 2))
    return [tile for tile in tiles if tile.legal(operands, shared_limit(capability), source)]


def variants() -> list[Launch]:
    """One launch for each source of rows, epilogue, type and tile that stand for the others."""
    half, single = Operands(Type.FP16), Operands(Type.TF32)
    split = Operands(Type.FP16, split=True, promote=512)
    pooled = [
        geometry(tile, operands, 1, 1, 1, source, Epilogue.GETMAX)
        for operands, tiles in ((half, (DEFAULT, LARGE, SMALL)), (split, (DEFAULT, SHALLOW, SMALL)))
        for tile in tiles
        for source in (Source.WINDOWS, Source.IDS)
        if tile.legal(operands, shared_limit((9, 0)), source)
    ]
    stored = [
        geometry(tile, operands, 1, 1, 1, Source.MATRIX, Epilogue.RELU, output=operands.stored)
        for operands in (half, Operands(Type.BF16), single, split)
        for tile in (DEFAULT, SMALL)
    ]
    batched = geometry(DEFAULT, half, 1, 1, bias=False)
    experts = max(WEIGHED)
    weighed = [
        geometry(DEFAULT, operands, 1, experts, 1, Source.MATRIX, epilogue, True, experts, operands.stored)
        for operands in (half, split)
        for epilogue in (Epilogue.EXPERTS, Epilogue.EXPERTS_RELU)
    ]
    residual = [
        geometry(DEFAULT, operands, 1, 1, epilogue=Epilogue.RESIDUAL, output=operands.stored)
        for operands in (half, Operands(Type.BF16), single, split)
    ]
    return [*pooled, *stored, batched, *weighed, *residual]
