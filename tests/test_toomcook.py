"""Toom-Cook computes the convolution that it replaces, from fewer products and as exactly as we say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.packed import transform_weights

from accel_cli.model.toomcook import INFINITY, MOST_TOKENS, ToomCook, best_points, toom_cook
from accel_cli.model.weights import Layer

WIDTHS = (3, 5, 7, 9)


def amplification(transform: ToomCook) -> list[float]:
    """For each width the rounding error of its worst output, in units of a direct sum's."""
    return [
        float(np.sqrt(np.square(outputs).sum(axis=1).max() / width))
        for width, outputs in zip(transform.widths, transform.outputs, strict=True)
    ]


@settings(max_examples=80, deadline=None)
@given(data=st.data(), seed=st.integers(0, 999), length=st.integers(1, 40))
def test_all_windows_of_a_chunk(data: st.DataObject, seed: int, length: int) -> None:
    size = st.integers(1, min(length, MOST_TOKENS))
    widths = data.draw(st.lists(size, min_size=1, max_size=4))
    transform, random = toom_cook(length, widths), np.random.default_rng(seed)
    x = random.normal(size=transform.tokens)
    transformed = transform.inputs @ x
    for width, weights, outputs in zip(widths, transform.weights, transform.outputs, strict=True):
        w = random.normal(size=width)
        assert weights.shape == (transform.products, width)
        y = outputs @ ((weights @ w) * transformed)
        np.testing.assert_allclose(y, np.correlate(x, w, "valid"), rtol=0, atol=1e-11)


def test_points_of_ones_choice() -> None:
    transform = toom_cook(4, [3], [0j, 1 + 0j, -1 + 0j, INFINITY])  # the well-known F(2, 3)
    assert transform.products == 4
    x, w = np.array([1.0, 2, 4, 8]), np.array([3.0, 5, 7])
    y = transform.outputs[0] @ ((transform.weights[0] @ w) * (transform.inputs @ x))
    np.testing.assert_allclose(y, [41, 82], rtol=1e-12)
    with pytest.raises(ValueError, match="points for 5 coefficients, and 4 tokens"):
        toom_cook(4, [3], [0j, 1j, -1 + 0j, INFINITY])


@pytest.mark.parametrize("tokens", range(3, MOST_TOKENS + 1))
def test_the_best_points_amplify_rounding_little(tokens: int) -> None:
    widths = [width for width in WIDTHS if width <= tokens]
    transform = toom_cook(tokens, widths)
    assert transform.products <= tokens + 2
    assert max(amplification(transform)) < 20
    assert len(best_points(tokens)) == len(set(best_points(tokens)))


@pytest.mark.parametrize("tokens", [0, 17])
def test_no_points_for_other_chunks(tokens: int) -> None:
    with pytest.raises(ValueError, match=f"chunks of {tokens} tokens: 1 to 16"):
        best_points(tokens)


@pytest.mark.parametrize(("length", "widest", "chunk"), [(8, 9, 8), (40, 17, 16)])
def test_refuses_a_kernel_that_does_not_fit(length: int, widest: int, chunk: int) -> None:
    with pytest.raises(ValueError, match=rf"of {widest} taps .* chunk of {chunk} tokens \(.* {length},"):
        toom_cook(length, (3, widest))


@pytest.mark.parametrize("length", [*range(9, 40), 256])
def test_chunks_hold_every_window(length: int) -> None:
    transform = toom_cook(length, WIDTHS)
    starts = range(0, length - max(WIDTHS) + 1, transform.step)
    for width in WIDTHS:
        held = {s + t for s in starts for t in range(min(transform.tokens, length - s) - width + 1)}
        assert held == set(range(length - width + 1))


def test_outputs_in_one_array() -> None:
    transform = toom_cook(16, WIDTHS)
    stacked = transform.stacked_outputs()
    assert stacked.shape == (4, 16, 18)
    for rows, outputs in zip(stacked, transform.outputs, strict=True):
        np.testing.assert_array_equal(rows[: len(outputs)], outputs.astype(np.float32))
        assert not rows[len(outputs) :].any()


def test_error_in_fp32_at_the_schools_size() -> None:
    """Sums over 4096 channels in one chain, as the GEMM sums."""
    random, dimension, filters, bias = np.random.default_rng(0), 4096, 4, np.zeros(4, np.float32)
    transform = toom_cook(16, WIDTHS)
    layers = [
        Layer((random.normal(size=(filters, dimension, k)) / np.sqrt(k * dimension)).astype(np.float32), bias)
        for k in WIDTHS
    ]
    x = random.normal(size=(3, 16, dimension)).astype(np.float32)
    v = np.einsum("pt,std->dps", transform.inputs.astype(np.float32), x)
    u = transform_weights(layers, transform).transpose(1, 0, 2)
    m = np.zeros((transform.products, len(x), u.shape[2]), np.float32)
    for d in range(dimension):
        m += v[d, :, :, None] * u[d, :, None, :]
    errors = []
    for kind, (layer, width) in enumerate(zip(layers, WIDTHS, strict=True)):
        outputs = transform.outputs[kind].astype(np.float32)
        y = np.einsum("tp,psc->stc", outputs, m[:, :, kind * filters : (kind + 1) * filters])
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), width, axis=1)
        errors.append((y - np.tensordot(windows, layer.weight, axes=([2, 3], [1, 2]))).ravel())
    error = np.concatenate(errors)
    assert np.abs(error).max() < 2e-4
    assert np.sqrt(np.square(error).mean()) < 2e-5
