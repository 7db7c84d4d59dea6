"""How much there is to do: the operations and the bytes that one batch needs under a plan.

FLOP are the multiplications and additions of matrix products (2 for each product that is added up) and
the additions of table rows in a folded convolution. Biases, ReLU, shortcuts, maxima, softmax, the
transforms around a Toom-Cook convolution's products, and padding that a kernel adds of its own are not
counted.

Bytes are every array that a layer reads and every one that it writes, once each: activations,
and the weights once a batch. Two things are counted as often as they occur: embedding rows and
table rows, which are gathered anew for each token. It is traffic that some level of memory must
serve, not what reaches DRAM; a rate above the device's memory bandwidth means that caches served it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel_cli.batches import TokenBatch
from accel_cli.engines.base import Plan
from accel_cli.kernels.windows import count_windows
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import layer_names
from accel_cli.model.toomcook import toom_cook

_ID = 4  # bytes of a token id
# Of one weight or activation; split ones are two halves.
VALUE_BYTES = {"fp32": 4, "fp32-split": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True)
class Work:
    """Operations, and bytes read and written."""

    flop: int = 0
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.flop + other.flop, self.bytes + other.bytes)


def total(parts: Sequence[Work]) -> Work:
    """All of them together."""
    return sum(parts, Work())


def layers(spec: ModelSpec, plan: Plan, batch: TokenBatch) -> dict[str, Work]:
    """The work of each layer of one batch, by the names of model.reference, in order.

    A plan that folds a layer into another leaves it with no work or with what remains of it.
    """
    size = VALUE_BYTES[plan.precision]
    if plan.convolution == "toomcook":
        work = _toomcook(spec, batch, size)
    else:
        work = _convolutions(spec, plan.convolution == "folded", batch, size)
    work |= _head(spec, plan.experts == "folded", len(batch), size)
    return {name: work[name] for name in layer_names(spec)}


def by_stage(work: dict[str, Work], stages: Sequence[str]) -> dict[str, Work]:
    """The work of the stages that an engine times; a layer that is none belongs to the next one that is.

    The last layer of `work` must be a stage.
    """
    gathered = dict.fromkeys(stages, Work())
    waiting = Work()
    for name, part in work.items():
        waiting += part
        if name in gathered:
            gathered[name] += waiting
            waiting = Work()
    return gathered


def _convolutions(spec: ModelSpec, folded: bool, batch: TokenBatch, size: int) -> dict[str, Work]:
    """From ids to pooled features."""
    sentences, tokens = len(batch), int(batch.offsets[-1])
    row = spec.embedding * size
    pooled = sentences * spec.features * size
    work: dict[str, Work] = {}
    convolved = 0
    for width in spec.widths:
        windows = tokens - sentences * (width - 1)
        output = windows * spec.filters
        if folded:
            gathered = output * width * size
            # the pooled features are written here, where the sums are
            work[f"convolution.{width}"] = Work(output * (width - 1), gathered + pooled // len(spec.widths))
        else:
            weight = spec.filters * (spec.embedding * width + 1) * size
            work[f"convolution.{width}"] = Work(
                2 * output * spec.embedding * width, tokens * row + weight + output * size
            )
            convolved += output * size
    work["embedding"] = Work(0, tokens * _ID + (0 if folded else 2 * tokens * row))
    work["features"] = Work(0, 0 if folded else convolved + pooled)
    return work


def _toomcook(spec: ModelSpec, batch: TokenBatch, size: int) -> dict[str, Work]:
    """The same from a product a point, between a sentence's transform and the outputs'."""
    transform = toom_cook(spec.max_tokens, spec.widths)
    chunks = count_windows(np.diff(batch.offsets), spec.widest, transform.step)
    transformed = transform.products * chunks * spec.embedding
    weights = transform.products * spec.embedding * spec.filters
    products = transform.products * chunks * spec.filters
    share = transformed // len(spec.widths)  # all widths are one product, which reads a sentence once
    each = Work(2 * transformed * spec.filters, (share + weights + products) * size)
    work = {f"convolution.{width}": each for width in spec.widths}
    tokens = int(batch.offsets[-1])
    work["embedding"] = Work(0, tokens * _ID + (tokens * spec.embedding + transformed) * size)
    work["features"] = Work(0, (products * len(spec.widths) + len(batch) * spec.features) * size)
    return work


def _head(spec: ModelSpec, folded: bool, sentences: int, size: int) -> dict[str, Work]:
    """From features to logits."""

    def product(inputs: int, outputs: int) -> Work:
        numbers = sentences * inputs + (inputs + 1) * outputs + sentences * outputs
        return Work(2 * sentences * inputs * outputs, numbers * size)

    first, *rest = spec.fully_connected
    hidden = first if folded else spec.expert_hidden
    weighed = sentences * spec.experts * hidden
    # read what each expert gives and the gate, write their sum
    mixing = Work(2 * weighed, (weighed + sentences * (spec.experts + hidden)) * size)
    sizes = list(zip(spec.fully_connected, rest, strict=False))
    dense = [product(inputs, outputs) for inputs, outputs in sizes]
    before = Work(0, 2 * sentences * first * size) if folded else product(hidden, first)
    names = [name for name in layer_names(spec) if name.startswith("fc.") or name == "logits"]
    work = dict(zip(names, [before, *dense], strict=True))
    work["gate"] = product(spec.features, spec.experts)
    work["experts"] = product(spec.features, spec.experts * hidden) + mixing
    return work
