"""The bytes that a plan moves through the device's memory, by arithmetic alone: for a sentence, for a batch.

Every array that a kernel leaves for the next one is written once and read once; weights are read once a
batch. What tiles read again is not in it, so it is the least: the place of a plan on a roofline.
"""

from __future__ import annotations

import numpy as np

from accel_cli.batches import Ints, TokenBatch
from accel_cli.bench.work import VALUE_BYTES, layers
from accel_cli.engines.base import Plan
from accel_cli.kernels.windows import count_windows
from accel_cli.model.config import ModelSpec
from accel_cli.model.toomcook import toom_cook

_HEAD = ("gate", "experts", "fc.", "logits")


def bytes_each(spec: ModelSpec, plan: Plan, kind: str, batch: int) -> float:
    """Bytes of a sentence, in batches of `batch` of one length; `kind` is `ids` or `embeddings`."""
    assert spec.length is not None
    one = np.array([spec.length], np.int32)
    sentences = TokenBatch.from_rows(np.zeros((batch, spec.length), np.int32))
    work = layers(spec, plan, sentences)
    head = sum(part.bytes for name, part in work.items() if name.startswith(_HEAD)) / batch
    size = VALUE_BYTES[plan.precision]
    given = (VALUE_BYTES["fp32"] - size) * spec.length * spec.embedding if kind == "embeddings" else 0
    return head + given + size * (_activations(spec, plan, kind, one) + _weights(spec, plan) / batch)


def convolution_bytes(spec: ModelSpec, plan: Plan, lengths: Ints) -> int:
    """Bytes from ids to features of a batch of sentences of such lengths."""
    values = _activations(spec, plan, "ids", lengths) + _weights(spec, plan)
    return VALUE_BYTES[plan.precision] * values


def _weights(spec: ModelSpec, plan: Plan) -> int:
    """Values of the convolutions' weights."""
    if plan.convolution == "folded":
        return 0
    taps = spec.taps
    if plan.convolution == "toomcook":
        taps = toom_cook(spec.max_tokens, spec.widths).products * len(spec.widths)
    return taps * spec.embedding * spec.filters


def _activations(spec: ModelSpec, plan: Plan, kind: str, lengths: Ints) -> int:
    """Values that are read and written from the input to the features of sentences of such lengths."""
    sentences, tokens = len(lengths), int(lengths.sum())
    words, features = tokens * spec.embedding, sentences * spec.features
    inside = [(width, tokens - sentences * (width - 1)) for width in spec.widths]
    if plan.convolution == "folded":
        return sum(width * count for width, count in inside) * spec.filters + features
    if plan.convolution == "toomcook":
        transform = toom_cook(spec.max_tokens, spec.widths)
        chunks = count_windows(lengths, spec.widest, transform.step)
        return words + 2 * chunks * transform.products * (spec.embedding + spec.features) + features
    direct = plan.convolution == "direct"
    gathered = kind == "ids" and plan.convolution == "implicit"
    in_place = kind == "embeddings" and direct
    inputs = words if gathered or in_place else 3 * words  # else they are read and written before
    windows = sum(tokens if direct else count for _, count in inside)
    if plan.convolution == "im2col":
        inputs += 2 * sum(width * count for width, count in inside) * spec.embedding
    if plan.epilogue == "fused":
        return inputs + features
    return inputs + 4 * windows * spec.filters + features  # stored, ReLU twice, read for the maximum
