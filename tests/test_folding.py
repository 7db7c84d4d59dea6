"""The two exact rewrites compute the function that they replace, for any shape."""

from __future__ import annotations

import networks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.model.folding import fold_experts, tap_matrix
from accel_cli.model.reference import forward, softmax
from accel_cli.model.weights import Layer, Weights

size = st.integers(1, 6)


def random_layer(random: np.random.Generator, *shape: int) -> Layer:
    weight = random.normal(size=shape).astype(np.float32)
    return Layer(weight, random.normal(size=shape[0]).astype(np.float32))


def network(random: np.random.Generator, features: int, experts: int, hidden: int, outputs: int) -> Weights:
    return Weights(
        embedding=np.zeros((2, 1), np.float32),
        convolutions=(),
        gate=random_layer(random, experts, features),
        experts=tuple(random_layer(random, hidden, features) for _ in range(experts)),
        fully_connected=(random_layer(random, outputs, hidden),),
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), features=size, experts=size, hidden=size, outputs=size)
def test_experts_into_the_first_fully_connected_layer(
    seed: int, features: int, experts: int, hidden: int, outputs: int
) -> None:
    random = np.random.default_rng(seed)
    weights = network(random, features, experts, hidden, outputs)
    h = random.normal(size=(3, features))
    g = softmax(h @ weights.gate.weight.T + weights.gate.bias)
    mixture = sum(g[:, [e]] * (h @ expert.weight.T + expert.bias) for e, expert in enumerate(weights.experts))
    first = weights.fully_connected[0]
    expected = mixture @ first.weight.T + first.bias
    folded = fold_experts(weights)
    assert (folded.weight.dtype, folded.bias.dtype) == (np.float32, np.float32)
    assert folded.weight.shape == (experts * outputs, features)
    parts = (h @ folded.weight.T + folded.bias).reshape(3, experts, outputs)
    found = (g[:, :, None] * parts).sum(axis=1) + folded.after
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    widths=st.lists(size, min_size=1, max_size=4, unique=True),
    filters=size,
    dimension=size,
)
def test_the_tap_matrix_holds_every_tap(seed: int, widths: list[int], filters: int, dimension: int) -> None:
    """An embedding times the matrix is a row of T: for each width, for each column j, the filters."""
    random = np.random.default_rng(seed)
    layers = tuple(random_layer(random, filters, dimension, width) for width in widths)
    embedding = random.normal(size=(5, dimension)).astype(np.float32)
    rows = (embedding @ tap_matrix(layers)).reshape(5, sum(widths), filters)
    tap = 0
    for layer, width in zip(layers, widths, strict=True):
        for j in range(width):
            expected = np.einsum("cd,vd->vc", layer.weight[:, :, j], embedding)
            np.testing.assert_allclose(rows[:, tap], expected, rtol=1e-4, atol=1e-5)
            tap += 1


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_convolution_as_a_sum_of_table_rows(name: str) -> None:
    spec = networks.NETWORKS[name]
    weights = networks.weights_of(spec)
    batch = networks.sentences(spec, [spec.max_tokens])
    expected = forward(spec, weights, batch)
    table = weights.embedding.astype(np.float64) @ tap_matrix(weights.convolutions)
    table = table.reshape(spec.vocabulary_size, spec.taps, spec.filters)
    tap = 0
    for width, layer in zip(spec.widths, weights.convolutions, strict=True):
        windows = spec.max_tokens - width + 1
        y = sum(table[batch.ids[j : j + windows], tap + j] for j in range(width)) + layer.bias
        np.testing.assert_allclose(y, expected[f"convolution.{width}"], rtol=1e-9, atol=1e-12)
        tap += width
