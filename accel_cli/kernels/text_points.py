"""Host twin of kernels_cu/text_points.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape
from accel_cli.kernels.text_rows import POINTS, by_lines

MOST_LABELS = 8192  # a block counts each in shared memory

KERNEL = Kernel(
    "text_points",
    (
        Array("logits", "float32"),
        Array("scores", "float32"),
        Array("labels", "int32"),
        Array("at", "int32"),
        Array("points", "int32", written=True),
        Array("blocks", "int32", written=True),
        Array("seen", "int32", written=True),
        Array("counts", "int32", written=True),
        Scalar("lines", "int32"),
        Scalar("columns", "int32"),
    ),
)


def geometry(lines: int, columns: int) -> Launch:
    """A thread a line; an integer a label in shared memory."""
    return by_lines(KERNEL, lines, shared_bytes=4 * columns)


def text_points(
    run: Runner,
    logits: Any,
    scores: Any,
    labels: Any,
    at: Any,
    points: Any,
    blocks: Any,
    seen: Any,
    counts: Any,
) -> None:
    """points [lines] = the scores of labels [lines] in ten-thousandths; blocks = bytes of each block's rows.

    logits and scores are [lines, columns]. at [2 * columns + POINTS + 1] is that of text_rows. To
    seen [columns] the sentences of each label are added, to counts those whose logits are not finite.
    """
    lines, columns = logits.shape
    check_shape("text_points scores", scores.shape, (lines, columns))
    check_shape("text_points labels", labels.shape, (lines,))
    check_shape("text_points at", at.shape, (2 * columns + POINTS + 1,))
    check_shape("text_points points", points.shape, (lines,))
    launch = geometry(lines, columns)
    check_shape("text_points blocks", blocks.shape, launch.grid[:1])
    check_shape("text_points seen", seen.shape, (columns,))
    if columns > MOST_LABELS:
        raise ValueError(f"text_points: {columns} labels; {MOST_LABELS} can be counted")
    run(launch, logits, scores, labels, at, points, blocks, seen, counts, lines, columns)
