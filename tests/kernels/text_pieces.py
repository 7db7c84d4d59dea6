"""Pieces of rows for the tests of the kernels that write them."""

from __future__ import annotations

import numpy as np

from accel_cli.kernels.text_rows import POINTS


def pieces_of(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Where pieces of 0 to 8 bytes begin, int32 [2 * columns + POINTS + 1], and their sizes."""
    sizes = np.arange(2 * columns + POINTS) * 7 % 9
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int32), sizes
