from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.toomcook_input import Chunks, toomcook_channels, toomcook_ids
from kernels.chunks import chunk_lists


def on(backend: Backend, chunks: Chunks) -> Chunks:
    arrays = (backend.array(array) for array in (chunks.starts, chunks.owners, chunks.offsets))
    return Chunks(*arrays, chunks.step)


def reference(x: np.ndarray, chunks: Chunks, matrix: np.ndarray) -> np.ndarray:
    """v [products, chunks, dimension] in float64 from token-major x."""
    v = np.zeros((len(matrix), len(chunks), x.shape[1]))
    for c, (start, owner) in enumerate(zip(chunks.starts, chunks.owners, strict=True)):
        part = x[start : min(start + matrix.shape[1], chunks.offsets[owner + 1])]
        v[:, c] = matrix[:, : len(part)].astype(np.float64) @ part
    return v


def output(backend: Backend, chunks: Chunks, matrix: np.ndarray, dimension: int) -> np.ndarray:
    return backend.array(poisoned((len(matrix), len(chunks), dimension)))


# A block has 128 channels, or 512 where four divides the dimension. Sentences may be shorter than a chunk.
CASES = [
    ([9], 1, 16, 18, 9),
    ([16, 9, 12], 127, 16, 18, 9),
    ([16, 17, 40, 24], 12, 16, 18, 9),
    ([5, 7, 20], 129, 6, 6, 3),
    ([13, 26], 513, 13, 15, 5),
    ([16, 10], 516, 16, 18, 7),
]


@pytest.mark.parametrize(("lengths", "dimension", "tokens", "products", "widest"), CASES)
def test_transforms_rows_of_a_table(
    backend: Backend, lengths: Sequence[int], dimension: int, tokens: int, products: int, widest: int
) -> None:
    chunks, matrix = chunk_lists(lengths, tokens, widest), random_floats(products, tokens, seed=1)
    table = random_floats(23, dimension)
    ids = np.random.default_rng(0).integers(0, 23, sum(lengths)).astype(np.int32)
    v = output(backend, chunks, matrix, dimension)
    arrays = (backend.array(ids), backend.array(table), on(backend, chunks), backend.array(matrix))
    toomcook_ids(backend.run, *arrays, v)
    check(backend.numpy(v), reference(table[ids], chunks, matrix))


# Four tokens are read at a time where four divides the length, and the step if there are several chunks.
@pytest.mark.parametrize(
    ("sentences", "length", "dimension", "tokens", "widest"),
    [
        (1, 9, 1, 16, 9),
        (3, 16, 129, 16, 9),
        (2, 12, 128, 16, 9),
        (2, 40, 20, 16, 9),
        (2, 40, 20, 16, 8),
        (3, 28, 7, 13, 6),
        (2, 14, 127, 14, 3),
    ],
)
def test_transforms_channels_first(
    backend: Backend, sentences: int, length: int, dimension: int, tokens: int, widest: int
) -> None:
    chunks = chunk_lists([length] * sentences, tokens, widest)
    matrix = random_floats(tokens + 2, tokens, seed=1)
    x = random_floats(sentences, dimension, length)
    rows = np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(-1, dimension)
    v = output(backend, chunks, matrix, dimension)
    toomcook_channels(backend.run, backend.array(x), on(backend, chunks), backend.array(matrix), v)
    check(backend.numpy(v), reference(rows, chunks, matrix))


def test_a_nan_stays_in_its_sentence_and_channel(backend: Backend) -> None:
    chunks, matrix, x = chunk_lists([9, 12], 16, 9), random_floats(18, 16), random_floats(21, 8)
    x[9, 3] = np.nan  # the token after the first sentence's last
    v, ids = output(backend, chunks, matrix, 8), backend.array(np.arange(len(x), dtype=np.int32))
    toomcook_ids(backend.run, ids, backend.array(x), on(backend, chunks), backend.array(matrix), v)
    nan = np.isnan(backend.numpy(v))
    assert nan[:, 1, 3].all()
    assert nan.sum() == 18
