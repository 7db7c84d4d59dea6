"""Host twin of kernels_cu/text_rows.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 256  # lines a block, a power of two
POINTS = 10001  # scores in ten-thousandths, from 0 to 1

KERNEL = Kernel(
    "text_rows",
    (
        Array("labels", "int32"),
        Array("points", "int32"),
        Array("blocks", "int32"),
        Array("at", "int32"),
        Array("pieces", "uint8"),
        Array("rows", "uint8", written=True),
        Scalar("lines", "int32"),
        Scalar("columns", "int32"),
    ),
)


def by_lines(kernel: Kernel, lines: int, shared_bytes: int = 0) -> Launch:
    """A thread a line."""
    grid = (ceil_div(lines, THREADS), 1, 1)
    return Launch(kernel, (("THREADS", THREADS),), grid, (THREADS, 1, 1), shared_bytes)


def geometry(lines: int) -> Launch:
    """A thread a line, and then a byte of its block's rows."""
    return by_lines(KERNEL, lines)


def text_rows(run: Runner, labels: Any, points: Any, blocks: Any, at: Any, pieces: Any, rows: Any) -> None:
    """rows [bytes] = the row of each of the lines, whose labels and points [lines] are those of text_points.

    blocks = bytes before each block. Piece i is the bytes pieces[at[i]:at[i + 1]]; a row is three of them:
    of c labels, label l has the pieces l and c + l around that of its score, which is 2 * c + point.
    """
    (lines,), (places,) = labels.shape, at.shape
    launch = geometry(lines)
    check_shape("text_rows points", points.shape, (lines,))
    check_shape("text_rows blocks", blocks.shape, launch.grid[:1])
    columns = (places - POINTS - 1) // 2
    check_shape("text_rows at", at.shape, (2 * columns + POINTS + 1,))
    run(launch, labels, points, blocks, at, pieces, rows, lines, columns)
