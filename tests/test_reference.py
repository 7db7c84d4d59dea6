"""The float64 reference against the specification written out as the dumbest loops there are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import networks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.batches import EmbeddingBatch, TokenBatch
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward, layer_names
from accel_cli.model.weights import Layer, Weights

Rows = list[list[float]]


def linear(x: list[float], layer: Layer) -> list[float]:
    weight, bias = layer.weight.tolist(), layer.bias.tolist()
    return [bias[o] + sum(weight[o][i] * x[i] for i in range(len(x))) for o in range(len(bias))]


def loops(spec: ModelSpec, weights: Weights, sentence: Rows) -> dict[str, Any]:
    """Every checkpoint of one sentence [tokens][dimension] in plain Python."""
    found: dict[str, Any] = {"embedding": sentence}
    features: list[float] = []
    for width, layer in zip(spec.widths, weights.convolutions, strict=True):
        weight, bias = layer.weight.tolist(), layer.bias.tolist()
        y = [[bias[c] for c in range(spec.filters)] for _ in range(len(sentence) - width + 1)]
        for t in range(len(y)):
            for c in range(spec.filters):
                for j in range(width):
                    for d in range(spec.embedding):
                        y[t][c] += weight[c][d][j] * sentence[t + j][d]
        found[f"convolution.{width}"] = y
        features += [max(max(row[c], 0.0) for row in y) for c in range(spec.filters)]
    found["features"] = features
    exponents = [math.exp(value) for value in linear(features, weights.gate)]
    gate = found["gate"] = [value / sum(exponents) for value in exponents]
    outputs = [linear(features, expert) for expert in weights.experts]
    values = found["experts"] = [
        sum(gate[e] * outputs[e][i] for e in range(spec.experts)) for i in range(spec.expert_hidden)
    ]
    for index, layer in enumerate(weights.fully_connected):
        inputs, values = values, linear(values, layer)
        if index < len(weights.fully_connected) - 1:
            values = [max(value, 0.0) for value in values]
            if index in spec.residual:
                values = [value + x for value, x in zip(values, inputs, strict=True)]
            found[f"fc.{index}"] = values
    found["logits"] = values
    return found


def check(spec: ModelSpec, weights: Weights, batch: TokenBatch | EmbeddingBatch, parts: list[Rows]) -> None:
    found = forward(spec, weights, batch)
    assert list(found) == layer_names(spec)
    expected = [loops(spec, weights, sentence) for sentence in parts]
    for name in found:
        join = np.concatenate if name.startswith(("embedding", "convolution")) else np.stack
        wanted = join([np.array(sentence[name]) for sentence in expected])
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-12, err_msg=name)


def token_rows(weights: Weights, batch: TokenBatch) -> list[Rows]:
    return [
        [weights.embedding[v].tolist() for v in batch.ids[batch.offsets[i] : batch.offsets[i + 1]]]
        for i in range(len(batch))
    ]


@pytest.mark.parametrize(
    "spec", [networks.RAGGED, networks.SMALLEST, networks.RESIDUAL], ids=["ragged", "smallest", "residual"]
)
def test_tokens(spec: ModelSpec) -> None:
    weights = networks.weights_of(spec)
    batch = networks.sentences(spec, networks.lengths_of(spec, 4))
    check(spec, weights, batch, token_rows(weights, batch))


def test_embeddings_are_channel_first() -> None:
    spec = networks.RAGGED
    values = np.random.default_rng(0).normal(size=(3, spec.embedding, 9)).astype(np.float32)
    parts = [[[float(v) for v in sentence[:, t]] for t in range(9)] for sentence in values]
    check(spec, networks.weights_of(spec), EmbeddingBatch(values), parts)


def test_pads_count_as_tokens() -> None:
    """A short sentence is filled up with <pad>, whose windows take part in the maximum."""
    spec = networks.RAGGED
    weights = networks.weights_of(spec)
    padded = TokenBatch(np.array([7, 1, 1, 1, 1], np.int32), np.array([0, 5], np.int32))
    check(spec, weights, padded, token_rows(weights, padded))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_shape(data: st.DataObject) -> None:
    size = st.integers(1, 4)
    widths = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True)))
    spec = replace(
        networks.RAGGED,
        vocabulary_size=6,
        max_tokens=8,
        embedding=data.draw(size),
        widths=widths,
        filters=data.draw(size),
        experts=data.draw(size),
        expert_hidden=data.draw(size),
        fully_connected=tuple(data.draw(st.lists(size, min_size=1, max_size=3))),
    )
    lengths = data.draw(st.lists(st.integers(spec.widest, 8), min_size=1, max_size=3))
    weights = networks.weights_of(spec, data.draw(st.integers(0, 99)))
    batch = networks.sentences(spec, lengths, data.draw(st.integers(0, 99)))
    check(spec, weights, batch, token_rows(weights, batch))


def test_a_sentence_does_not_depend_on_its_batch() -> None:
    spec = networks.SENTIMENT
    weights = networks.weights_of(spec)
    batch = networks.sentences(spec, [9, 50, 256, 9])
    whole = forward(spec, weights, batch)["logits"]
    for index in range(len(batch)):
        alone = forward(spec, weights, batch.rows(index, index + 1))["logits"]
        np.testing.assert_allclose(alone[0], whole[index], rtol=1e-12)


def test_large_gates_do_not_overflow() -> None:
    spec = networks.RAGGED
    weights = networks.weights_of(spec)
    huge = replace(weights, gate=Layer(weights.gate.weight * 1e4, weights.gate.bias))
    layers = forward(spec, huge, networks.sentences(spec, [9, 24]))
    assert np.isfinite(layers["logits"]).all()
    np.testing.assert_allclose(layers["gate"].sum(axis=1), 1.0)
