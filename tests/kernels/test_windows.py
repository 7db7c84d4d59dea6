from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.windows import count_windows, windows
from kernels.ragged import offsets_of


def run(backend: Backend, offsets: np.ndarray, width: int, step: int, count: int) -> tuple[np.ndarray, ...]:
    starts, owners = (backend.array(poisoned(count, "int32")) for _ in range(2))
    windows(backend.run, backend.array(offsets), width, starts, owners, step)
    return backend.numpy(starts), backend.numpy(owners)


def expected(offsets: np.ndarray, width: int, step: int) -> np.ndarray:
    """Pairs of a window's first token and its sentence."""
    pairs = [
        (start, sentence)
        for sentence in range(len(offsets) - 1)
        for start in range(offsets[sentence], offsets[sentence + 1] - width + 1, step)
    ]
    return np.array(pairs, np.int32).reshape(-1, 2)


# A block lists the windows of 256 sentences and counts those before. A sentence under the width has none.
@pytest.mark.parametrize(
    ("lengths", "width", "step"),
    [
        ([1], 1, 1),
        ([16, 16, 16], 9, 1),
        ([3, 2, 9, 0, 30, 3], 3, 1),
        ([24, 9, 16, 17, 8, 40], 9, 8),
        ([4] * 255, 3, 1),
        ([5] * 256, 3, 2),
        ([3] * 257, 3, 1),
        ([*range(20)] * 30, 7, 3),
    ],
)
def test_lists_the_windows_inside_sentences(
    backend: Backend, lengths: Sequence[int], width: int, step: int
) -> None:
    offsets = offsets_of(lengths)
    wanted = expected(offsets, width, step)
    assert count_windows(lengths, width, step) == len(wanted)
    starts, owners = run(backend, offsets, width, step, len(wanted))
    check_bits(starts, wanted[:, 0])
    check_bits(owners, wanted[:, 1])


def test_lists_no_more_than_it_has_room_for(backend: Backend) -> None:
    offsets = offsets_of([5, 9, 7])
    starts, owners = run(backend, offsets, 3, 1, 6)
    check_bits(np.stack([starts, owners], 1), expected(offsets, 3, 1)[:6])


def test_refuses_a_step_of_nothing(backend: Backend) -> None:
    with pytest.raises(ValueError, match="step 0"):
        run(backend, offsets_of([5]), 3, 0, 1)
