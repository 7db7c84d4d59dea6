"""The numpy reference: the whole network in float64, one sentence after the other. It is the truth.

A result is a dictionary of checkpoints, in the order of the computation (`layer_names`):

    embedding       [tokens, dimension]       the sentences end to end
    convolution.K   [windows, filters]        bias included, before ReLU, the sentences end to end
    features        [sentences, widths * filters]   after ReLU, maximum over time and concatenation
    gate            [sentences, experts]      softmax
    experts         [sentences, hidden]       the experts' outputs weighed by the gate
    fc.I            [sentences, outputs]      after ReLU and the shortcut, if it has one
    logits          [sentences, labels]       the last fully connected layer
"""

from __future__ import annotations

import numpy as np

from accel_cli.batches import Batch, Doubles, TokenBatch
from accel_cli.model.config import ModelSpec
from accel_cli.model.weights import Layer, Weights


def layer_names(spec: ModelSpec) -> list[str]:
    """The checkpoints of a network in the order of the computation."""
    convolutions = [f"convolution.{width}" for width in spec.widths]
    hidden = [f"fc.{index}" for index in range(len(spec.fully_connected) - 1)]
    return ["embedding", *convolutions, "features", "gate", "experts", *hidden, "logits"]


def forward(spec: ModelSpec, weights: Weights, batch: Batch) -> dict[str, Doubles]:
    """Every checkpoint of a batch, float64."""
    sentences = [_embed(weights, batch, index) for index in range(len(batch))]
    layers: dict[str, Doubles] = {"embedding": np.concatenate(sentences)}
    pooled = []
    for width, convolution in zip(spec.widths, weights.convolutions, strict=True):
        weight = convolution.weight.astype(np.float64)
        outputs = [_convolve(sentence, weight) + convolution.bias for sentence in sentences]
        layers[f"convolution.{width}"] = np.concatenate(outputs)
        pooled.append(np.stack([np.maximum(output, 0.0).max(axis=0) for output in outputs]))
    features = layers["features"] = np.concatenate(pooled, axis=1)
    gate = layers["gate"] = softmax(_linear(features, weights.gate))
    mixture = sum(gate[:, [e]] * _linear(features, expert) for e, expert in enumerate(weights.experts))
    values: Doubles = np.asarray(mixture)
    layers["experts"] = values
    *hidden, last = weights.fully_connected
    for index, layer in enumerate(hidden):
        shortcut = values if index in spec.residual else 0.0
        values = layers[f"fc.{index}"] = np.maximum(_linear(values, layer), 0.0) + shortcut
    layers["logits"] = _linear(values, last)
    return layers


def softmax(values: Doubles) -> Doubles:
    """Softmax of each row."""
    shifted = np.exp(values - values.max(axis=1, keepdims=True))
    result: Doubles = shifted / shifted.sum(axis=1, keepdims=True)
    return result


def _embed(weights: Weights, batch: Batch, index: int) -> Doubles:
    """Sentence `index` as [tokens, dimension]."""
    if isinstance(batch, TokenBatch):
        ids = batch.ids[batch.offsets[index] : batch.offsets[index + 1]]
        return np.asarray(weights.embedding[ids], dtype=np.float64)
    return np.asarray(batch.values[index].T, dtype=np.float64)


def _convolve(sentence: Doubles, weight: Doubles) -> Doubles:
    """y[t, c] = sum over d, j of W[c, d, j] * x[t + j, d]."""
    windows = np.lib.stride_tricks.sliding_window_view(sentence, weight.shape[2], axis=0)
    result: Doubles = np.tensordot(windows, weight, axes=([1, 2], [1, 2]))
    return result


def _linear(values: Doubles, layer: Layer) -> Doubles:
    result: Doubles = values @ layer.weight.T.astype(np.float64) + layer.bias
    return result
