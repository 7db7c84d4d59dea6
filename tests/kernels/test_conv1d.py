from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, check_bits, poisoned, random_floats

from accel_cli.kernels.conv1d import conv1d
from kernels.ragged import offsets_of, windows


def reference(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """y [tokens, filters] in float64 from token-major x, and which of its rows are windows."""
    x, weight, width = x.astype(np.float64), weight.astype(np.float64), weight.shape[2]
    y, written = np.zeros((len(x), len(weight))), np.zeros(len(x), bool)
    for _, first, count in windows(offsets, width):
        for t in range(first, first + max(count, 0)):
            y[t] = np.einsum("cdj,jd->c", weight, x[t : t + width]) + bias
            written[t] = True
    return y, written


def run(
    backend: Backend,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    offsets: np.ndarray,
    strides: tuple[int, int],
) -> np.ndarray:
    tokens = x.size // weight.shape[1]
    y = backend.array(poisoned((tokens, len(weight))))
    inputs = [backend.array(array) for array in (x, weight, bias, offsets)]
    conv1d(backend.run, *inputs, y, strides)
    return backend.numpy(y)


# The tile is 128 filters of one sentence. A sentence of `width` tokens has one window, a shorter one none.
@pytest.mark.parametrize(
    ("lengths", "dimension", "filters", "width"),
    [
        ([1], 1, 1, 1),
        ([3], 5, 127, 3),
        ([9, 4, 5], 16, 128, 3),
        ([5, 17], 7, 129, 5),
        ([7, 2, 30, 3], 20, 10, 3),
        ([12, 12], 33, 260, 7),
    ],
)
def test_slides_over_every_sentence(
    backend: Backend, lengths: Sequence[int], dimension: int, filters: int, width: int
) -> None:
    offsets = offsets_of(lengths)
    x = random_floats(int(offsets[-1]), dimension)
    weight, bias = random_floats(filters, dimension, width), random_floats(filters)
    y = run(backend, x, weight, bias, offsets, (dimension, 1))
    expected, written = reference(x, weight, bias, offsets)
    check(y[written], expected[written])
    check_bits(y[~written], poisoned(y[~written].shape))


def test_takes_channel_first_sentences_too(backend: Backend) -> None:
    sentences, length, dimension, width = 3, 11, 6, 3
    offsets = offsets_of([length] * sentences)
    x = random_floats(sentences, length, dimension)
    weight, bias = random_floats(20, dimension, width), random_floats(20)
    channel_first = np.ascontiguousarray(x.transpose(0, 2, 1))
    y = run(backend, channel_first, weight, bias, offsets, (1, length))
    expected, written = reference(x.reshape(-1, dimension), weight, bias, offsets)
    check(y[written], expected[written])
    check_bits(y[~written], poisoned(y[~written].shape))
