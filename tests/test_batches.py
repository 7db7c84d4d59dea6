"""What travels between the parts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.batches import TokenBatch


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(20, 60))
def test_parts_keep_within_the_budget(lengths: list[int], tokens: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    batch = TokenBatch(np.arange(offsets[-1], dtype=np.int32), offsets)
    parts = batch.parts(tokens)
    assert all(0 < part.offsets[-1] <= tokens for part in parts)
    assert np.concatenate([part.lengths for part in parts]).tolist() == lengths
    assert np.array_equal(np.concatenate([part.ids for part in parts]), batch.ids)
    full = [part.offsets[-1] + after.lengths[0] for part, after in pairwise(parts)]
    assert all(size > tokens for size in full)  # none of them is smaller than it must be
