"""Host twin of kernels_cu/sgemm_tile.cuh: what a block and a thread of sgemm make, which tiles are legal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """What a block and a thread of it make, the step along k, and how many steps are held at once."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    stages: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return 4 * self.stages * self.depth * (self.rows + 4 + self.columns)

    def legal(self, shared_limit: int) -> bool:
        """Whether the kernel takes it, on a device that gives a block so many bytes of shared memory."""
        down = 4 if self.thread_rows > self.thread_columns else 8  # a warp is 8 x 4 threads, or 4 x 8
        quads = self.columns // 4
        return (
            self.rows % (down * self.thread_rows) == 0
            and self.columns % (32 // down * self.thread_columns) == 0
            and 64 <= self.threads <= 512
            and self.rows % (self.threads // 8) == 0
            and self.threads % quads == 0
            and self.depth % (self.threads // quads) == 0
            and self.depth % 8 == 0
            and self.stages >= 2
            and self._registers <= 255
            and 512 // self._registers * 128 >= self.threads
            and self.shared_bytes <= shared_limit
        )

    def resident(self, shared_limit: int) -> int:
        """Blocks that a processor holds at once, of the variant that holds fewest."""
        fitting = 512 // self._registers * 128 // self.threads
        return max(1, min(fitting, shared_limit // (self.shared_bytes + _RESERVED)))

    @property
    def _registers(self) -> int:
        """About what a thread takes, as the kernel estimates it for the variant that takes most: with ids."""
        operands = 2 * (self.thread_rows + self.thread_columns)
        rows = self.rows // (self.threads // 8)
        return max(72, self.thread_rows * self.thread_columns + operands + rows + 44)


_RESERVED = 1 << 10  # bytes of shared memory that CUDA takes for itself, of each block

DEFAULT = Tile(128, 128, 8, 16, 8, 3)
SMALL = Tile(64, 64, 16, 8, 8, 3)  # for products with too few tiles of 128 for all processors

# A tile's step along k divides this where it must serve any product, and with it every embedding whose words
# a product's loads gather.
STEP = 16

# Tiles for devices that were never tuned, and how well each does on a product that fills the device:
# a thread that makes more outputs reads less for each.
USUAL = {
    Tile(128, 256, 16, 16, 8, 2): 1.0,
    DEFAULT: 0.98,
    Tile(64, 128, 16, 8, 8, 3): 0.95,
    SMALL: 0.94,
    Tile(64, 64, 16, 4, 8, 4): 0.86,
    Tile(64, 64, 16, 4, 4, 4): 0.7,
    Tile(32, 32, 16, 4, 4, 4): 0.6,
}

_BLOCKS = (
    *((128, 128), (128, 256), (256, 128), (128, 64), (64, 128), (64, 64)),
    *((64, 32), (32, 64), (32, 128), (128, 32), (32, 32)),
)
_THREADS = ((8, 16), (16, 8), (8, 8), (4, 8), (8, 4), (4, 4))


def shared_limit(capability: tuple[int, int]) -> int:
    """The bytes of shared memory that a block may have on a device of this compute capability."""
    kibibytes = {(8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227, (10, 3): 227}
    return kibibytes.get(capability, 99) << 10


def candidates(capability: tuple[int, int]) -> list[Tile]:
    """All legal tiles for a device, large ones first: what tuning chooses from."""
    tiles = (
        Tile(*block, depth, *thread, stages)
        for block in _BLOCKS
        for thread in _THREADS
        for depth in (16, 8, 32)
        for stages in (3, 4, 2, 5)
    )
    return [tile for tile in tiles if tile.legal(shared_limit(capability))]
