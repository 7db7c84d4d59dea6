"""Host twin of kernels_cu/reread.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape

THREADS, READS = 256, 2  # of a block; of a thread in each round, 16 bytes each
PIECE = 4 * READS * THREADS  # words that a block reads in a round

KERNEL = Kernel(
    "reread",
    (
        Array("words", "uint32"),
        Array("sums", "uint32", written=True),
        Scalar("pieces", "int32"),
        Scalar("step", "int32"),
        Scalar("rounds", "int32"),
    ),
)


def geometry(blocks: int, *, near: bool) -> Launch:
    """So many blocks; `near` is through the level-1 cache."""
    defines = (("THREADS", THREADS), ("READS", READS), ("NEAR", int(near)))
    return Launch(KERNEL, defines, (blocks, 1, 1), (THREADS, 1, 1))


def reread(run: Runner, words: Any, sums: Any, step: int, rounds: int, *, near: bool) -> None:
    """sums [blocks, THREADS] = what each thread reads of words [pieces, PIECE], both uint32, added up.

    A block reads `rounds` pieces, each `step` further on than the one before; step < pieces.
    """
    (blocks, _), (pieces, _) = sums.shape, words.shape
    check_shape("reread words", words.shape, (pieces, PIECE))
    check_shape("reread sums", sums.shape, (blocks, THREADS))
    if not 0 <= step < pieces:
        raise ValueError(f"reread: a step of {step}, expected 0 to {pieces - 1}")
    run(geometry(blocks, near=near), words, sums, pieces, step, rounds)
