from collections.abc import Sequence

import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check, poisoned, random_floats

from accel_cli.kernels.toomcook_input import Chunks, toomcook_ids
from accel_cli.kernels.toomcook_output import toomcook_output
from accel_cli.model.toomcook import toom_cook
from accel_cli.model.weights import Layer
from kernels.chunks import chunk_lists
from kernels.packed import transform_weights


def run(
    backend: Backend,
    m: np.ndarray,
    bias: np.ndarray,
    matrices: np.ndarray,
    widths: Sequence[int],
    chunks: Chunks,
) -> np.ndarray:
    features = backend.array(np.zeros((len(chunks.offsets) - 1, len(bias)), np.float32))
    arrays = [backend.array(array) for array in (m, bias, matrices, np.array(widths, np.int32))]
    lists = [backend.array(array) for array in (chunks.starts, chunks.owners, chunks.offsets)]
    toomcook_output(backend.run, *arrays, Chunks(*lists, chunks.step), features)
    return backend.numpy(features)


def reference(
    m: np.ndarray, bias: np.ndarray, matrices: np.ndarray, widths: Sequence[int], chunks: Chunks
) -> np.ndarray:
    tokens, filters = matrices.shape[1], len(bias) // len(widths)
    features = np.zeros((len(chunks.offsets) - 1, len(bias)))
    for c, (start, owner) in enumerate(zip(chunks.starts, chunks.owners, strict=True)):
        live = min(tokens, chunks.offsets[owner + 1] - start)
        for kind, width in enumerate(widths):
            at = slice(kind * filters, (kind + 1) * filters)
            rows = matrices[kind, : live - width + 1].astype(np.float64)
            largest = (rows @ m[:, c, at] + bias[at]).max(axis=0)
            features[owner, at] = np.maximum(features[owner, at], largest)
    return features


# A block has 128 filters of one width, or 512 where four divides the filters and m's rows.
@pytest.mark.parametrize(
    ("lengths", "widths", "filters", "pitch", "tokens", "products"),
    [
        ([1], [1], 1, 4, 1, 1),
        ([16, 16], [3, 5, 7, 9], 127, 508, 16, 18),
        ([16, 9, 40], [3, 9], 128, 256, 16, 18),
        ([7, 20], [2, 3], 129, 260, 6, 6),
        ([13, 30, 5], [5], 516, 520, 13, 15),
        ([11, 8], [3, 4], 6, 14, 8, 8),
    ],
)
def test_pools_the_windows_of_all_widths(
    backend: Backend,
    lengths: Sequence[int],
    widths: Sequence[int],
    filters: int,
    pitch: int,
    tokens: int,
    products: int,
) -> None:
    chunks, columns = chunk_lists(lengths, tokens, max(widths)), len(widths) * filters
    m = poisoned((products, len(chunks), pitch))
    m[:, :, :columns] = random_floats(products, len(chunks), columns)
    bias, matrices = random_floats(columns), random_floats(len(widths), tokens, products, seed=1)
    for kind, width in enumerate(widths):
        matrices[kind, tokens - width + 1 :] = np.nan
    expected = reference(m, bias, matrices, widths, chunks)
    check(run(backend, m, bias, matrices, widths, chunks), expected)


def test_a_nan_wins_and_stays_in_its_feature(backend: Backend) -> None:
    chunks, widths = chunk_lists([40, 16], 16, 9), [3, 9]
    m, bias = random_floats(18, len(chunks), 8), random_floats(8)
    matrices = random_floats(2, 16, 18, seed=1)
    m[4, 1, 2] = np.nan
    m[5, 2, 3] = -np.nan
    expected = reference(m, bias, matrices, widths, chunks)
    found = run(backend, m, bias, matrices, widths, chunks)
    assert np.argwhere(np.isnan(found)).tolist() == [[0, 2], [0, 3]]
    there = ~np.isnan(found)
    check(found[there], expected[there])


@pytest.mark.parametrize(
    ("lengths", "longest"), [([16, 16, 16], 16), ([9, 16, 33, 12, 64], 64), ([9, 11], 11)]
)
def test_a_whole_convolution(backend: Backend, lengths: Sequence[int], longest: int) -> None:
    widths, dimension, filters = (3, 5, 7, 9), 24, 12
    transform = toom_cook(longest, widths)
    layers = [Layer(random_floats(filters, dimension, width), random_floats(filters)) for width in widths]
    x = random_floats(sum(lengths), dimension)
    chunks = chunk_lists(lengths, transform.tokens, max(widths))
    lists = [backend.array(array) for array in (chunks.starts, chunks.owners, chunks.offsets)]
    v = backend.array(poisoned((transform.products, len(chunks), dimension)))
    matrix = backend.array(transform.inputs.astype(np.float32))
    ids = backend.array(np.arange(len(x), dtype=np.int32))
    toomcook_ids(backend.run, ids, backend.array(x), Chunks(*lists, chunks.step), matrix, v)
    m = backend.numpy(v) @ transform_weights(layers, transform)
    bias = np.concatenate([layer.bias for layer in layers])
    found = run(backend, m, bias, transform.stacked_outputs(), widths, chunks)

    expected = np.zeros(found.shape)
    for s in range(len(lengths)):
        sentence = x[chunks.offsets[s] : chunks.offsets[s + 1]].astype(np.float64)
        for kind, (layer, width) in enumerate(zip(layers, widths, strict=True)):
            windows = np.lib.stride_tricks.sliding_window_view(sentence, width, axis=0)
            y = np.tensordot(windows, layer.weight, axes=([1, 2], [1, 2])) + layer.bias
            expected[s, kind * filters : (kind + 1) * filters] = np.maximum(y, 0).max(axis=0)
    check(found, expected)
