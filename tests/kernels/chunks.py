"""Sentences cut into the chunks of a Toom-Cook convolution, by numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel_cli.kernels.toomcook_input import Chunks
from kernels.ragged import offsets_of


def chunk_lists(lengths: Sequence[int], tokens: int, widest: int) -> Chunks:
    """Chunks of `tokens` tokens that hold every window of `widest` inside the sentences."""
    offsets, step = offsets_of(lengths), tokens - widest + 1
    starts = [np.arange(offsets[s], offsets[s + 1] - widest + 1, step) for s in range(len(lengths))]
    owners = np.repeat(np.arange(len(lengths)), [len(each) for each in starts])
    return Chunks(np.concatenate(starts).astype(np.int32), owners.astype(np.int32), offsets, step)
