from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned, random_floats

from accel_cli.kernels.im2col import im2col
from kernels.ragged import offsets_of, windows


# A block copies 256 floats of a window, or 1024 where four divides the dimension.
@pytest.mark.parametrize(
    ("lengths", "dimension", "width"),
    [
        ([1], 1, 1),
        ([5, 3], 85, 3),
        ([4], 257, 1),
        ([9, 4, 16], 4, 3),
        ([6], 340, 3),
        ([4], 512, 2),
        ([5], 516, 2),
    ],
)
def test_lays_windows_out_as_rows(
    backend: Backend, lengths: Sequence[int], dimension: int, width: int
) -> None:
    offsets = offsets_of(lengths)
    x = random_floats(int(offsets[-1]), dimension)
    starts = [first + t for _, first, count in windows(offsets, width) for t in range(count)]
    columns = backend.array(poisoned((len(starts), width * dimension)))
    im2col(backend.run, backend.array(x), backend.array(np.array(starts, np.int32)), columns)
    check_bits(backend.numpy(columns), np.stack([x[start : start + width].ravel() for start in starts]))


def test_refuses_a_part_of_a_token(backend: Backend) -> None:
    x, starts = backend.array(random_floats(4, 6)), backend.array(np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="15 columns are no whole tokens of 6"):
        im2col(backend.run, x, starts, backend.array(poisoned((2, 15))))
