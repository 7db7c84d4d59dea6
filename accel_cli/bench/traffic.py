"""The bytes that a plan moves through the device's memory for one sentence, by arithmetic alone.

Every array that a kernel leaves for the next one is written once and read once; weights are read once a
batch. What tiles read again is not in it, so it is the least: the place of a plan on a roofline.
"""

from __future__ import annotations

import numpy as np

from accel_cli.batches import TokenBatch
from accel_cli.bench.work import VALUE_BYTES, layers
from accel_cli.engines.base import Plan
from accel_cli.kernels.windows import count_windows
from accel_cli.model.config import ModelSpec
from accel_cli.model.toomcook import toom_cook

_HEAD = ("gate", "experts", "fc.", "logits")


def bytes_each(spec: ModelSpec, plan: Plan, kind: str, batch: int) -> float:
    """Bytes of a sentence, in batches of `batch` of one length; `kind` is `ids` or `embeddings`."""
    assert spec.length is not None
    sentences = TokenBatch.from_rows(np.zeros((batch, spec.length), np.int32))
    work = layers(spec, plan, sentences)
    head = sum(part.bytes for name, part in work.items() if name.startswith(_HEAD)) / batch
    size = VALUE_BYTES[plan.precision]
    given = (VALUE_BYTES["fp32"] - size) * spec.length * spec.embedding if kind == "embeddings" else 0
    return head + given + size * (_activations(spec, plan, kind) + _weights(spec, plan) / batch)


def _weights(spec: ModelSpec, plan: Plan) -> int:
    """Values of the convolutions' weights."""
    if plan.convolution == "folded":
        return 0
    taps = spec.taps
    if plan.convolution == "toomcook":
        taps = toom_cook(spec.max_tokens, spec.widths).products * len(spec.widths)
    return taps * spec.embedding * spec.filters


def _activations(spec: ModelSpec, plan: Plan, kind: str) -> int:
    """Values of a sentence that are read and written from its input to its features."""
    tokens = spec.length or 0
    words = tokens * spec.embedding
    if plan.convolution == "folded":
        return sum(width * (tokens - width + 1) for width in spec.widths) * spec.filters + spec.features
    if plan.convolution == "toomcook":
        transform = toom_cook(tokens, spec.widths)
        chunks = count_windows([tokens], spec.widest, transform.step)
        return words + 2 * chunks * transform.products * (spec.embedding + spec.features) + spec.features
    gathered = kind == "ids" and plan.convolution == "implicit"
    in_place = kind == "embeddings" and plan.convolution == "direct"
    inputs = words if gathered or in_place else 3 * words  # else they are read and written before
    windows = [tokens if plan.convolution == "direct" else tokens - width + 1 for width in spec.widths]
    if plan.convolution == "im2col":
        inputs += 2 * sum(w * count for w, count in zip(spec.widths, windows, strict=True)) * spec.embedding
    if plan.epilogue == "fused":
        return inputs + spec.features
    return (
        inputs + 4 * sum(windows) * spec.filters + spec.features
    )  # stored, ReLU twice, read for the maximum
