"""Host twin of kernels_cu/wgmma_gemm.cu: which tiles there are. The products are in tensor_gemm.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from accel_cli.kernels.base import Kernel, Launch, ceil_div
from accel_cli.kernels.sgemm import WEIGHED, Epilogue
from accel_cli.kernels.tensor_operands import ROW_BYTES, Operands, Type
from accel_cli.kernels.tensor_tile import Source, geometry, tensor_kernel

KERNEL = tensor_kernel("wgmma_gemm", "sm_90a", overlaps=True)
_BARRIER_BYTES = 8  # two a stage
_WIDTHS = (64, 128, 192, 256)
# With more there are spills, or products that wait for each other, as the compiler says.
_TALL, _ROWS = 2, 256
_SUMS = {1: 128, 2: 128, 3: 64}  # registers of a thread for sums, by groups


@dataclass(frozen=True)
class WgmmaTile:
    """What a block makes: `groups` warpgroups `tall` times 64 rows each, and `columns`.

    `stages` steps along k are held at once. `cluster` blocks below each other share the tiles of the
    weights. At most `blocks` run for a product, each tile after tile, and fragment_held.cuh says which values
    it stores while it multiplies the next one; 0 is a block for each tile.
    """

    groups: int
    tall: int
    columns: int
    stages: int
    cluster: int = 1
    blocks: int = 0

    kernel: ClassVar[Kernel] = KERNEL

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.groups * self.tall * 64

    @property
    def threads(self) -> int:
        """Threads of a block: the first warpgroup copies."""
        return (self.groups + 1) * 128

    def takes(self, source: Source) -> bool:
        """Whether the kernel can read such rows."""
        return True

    def constants(self) -> tuple[tuple[str, int], ...]:
        """The kernel's own defines."""
        values = (self.groups, self.tall, self.columns, self.stages, self.cluster)
        return tuple(zip(("GROUPS", "TALL", "BN", "STAGES", "CLUSTER"), values, strict=True))

    def shared_bytes(self, split: bool) -> int:
        """Shared memory of a block."""
        stage = (2 if split else 1) * (self.rows + self.columns) * ROW_BYTES
        return self.stages * (stage + 2 * _BARRIER_BYTES)

    def grid(self, rows: int, columns: int, batch: int) -> tuple[int, int, int]:
        """Whole clusters, and no more blocks than there are tiles; z is the batch."""
        down = ceil_div(rows, self.rows * self.cluster) * self.cluster
        tiles = down * ceil_div(columns, self.columns)
        most = self.blocks // self.cluster * self.cluster or tiles
        return (min(tiles, most), 1, batch)

    def legal(self, operands: Operands, shared_limit: int, source: Source = Source.MATRIX) -> bool:
        """Whether the kernel takes it, on a device that gives a block so many bytes of shared memory."""
        sums = self.tall * self.columns // 2 * (2 if operands.promote else 1)
        return (
            self.takes(source)
            and self.groups in _SUMS
            and 1 <= self.tall <= _TALL
            and self.rows <= _ROWS
            and self.columns in _WIDTHS
            and self.columns % self.cluster == 0
            and 1 <= self.cluster <= 8
            and self.stages >= 2
            and sums <= _SUMS[self.groups]
            and self.shared_bytes(operands.split) <= shared_limit
        )


LARGE = WgmmaTile(2, 1, 256, 4)
PAIR = replace(LARGE, cluster=2)
DEFAULT = WgmmaTile(2, 1, 128, 6)
SPLIT = WgmmaTile(2, 1, 128, 3)  # which takes twice the memory
NARROW = WgmmaTile(2, 1, 64, 8)
SMALL = WgmmaTile(1, 1, 128, 8)
SHORT = WgmmaTile(1, 1, 128, 4)  # for split operands too
TINY = WgmmaTile(1, 1, 64, 4)


def variants() -> list[Launch]:
    """One launch for each source of rows, epilogue, type and tile that stand for the others."""
    half, single = Operands(Type.FP16), Operands(Type.TF32)
    split = Operands(Type.FP16, split=True, promote=512)
    pooled = [
        geometry(tile, operands, 1, 1, 1, source, Epilogue.GETMAX)
        for operands, tiles in ((half, (PAIR, LARGE, DEFAULT, SMALL, TINY)), (split, (SPLIT, SHORT, TINY)))
        for tile in tiles
        for source in (Source.WINDOWS, Source.IDS)
    ]
    stored = [
        geometry(tile, operands, 1, 1, 1, source, Epilogue.RELU, output=operands.stored)
        for operands, tiles in (
            (half, (PAIR, LARGE, DEFAULT)),
            (Operands(Type.BF16), (LARGE,)),
            (single, (LARGE, DEFAULT)),
            (split, (SPLIT, TINY)),
        )
        for tile in tiles
        for source in (Source.MATRIX, Source.PACKED)
    ]
    batched = [
        geometry(tile, operands, 1, 1, bias=False) for operands, tile in ((half, LARGE), (split, SPLIT))
    ]
    experts = max(WEIGHED)
    weighed = [
        geometry(tile, operands, 1, experts, 1, Source.MATRIX, epilogue, True, experts, operands.stored)
        for operands, tile in ((half, LARGE), (split, SPLIT))
        for epilogue in (Epilogue.EXPERTS, Epilogue.EXPERTS_RELU)
    ]
    residual = [
        geometry(tile, operands, 1, 1, epilogue=Epilogue.RESIDUAL, output=operands.stored)
        for operands, tile in (
            (half, LARGE),
            (Operands(Type.BF16), LARGE),
            (single, LARGE),
            (split, SPLIT),
        )
    ]
    return [*pooled, *stored, *batched, *weighed, *residual]
