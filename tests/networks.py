"""Small networks and sentences for the tests of the model and of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from accel_cli.batches import TokenBatch
from accel_cli.engines.base import Plan
from accel_cli.model.config import ModelSpec
from accel_cli.model.generate import generate
from accel_cli.model.weights import Weights, assemble

NOWHERE = Path("/nowhere")

RAGGED = ModelSpec(
    tokenizer="words",
    vocabulary=NOWHERE / "vocabulary.txt",
    vocabulary_size=40,
    length=None,
    max_tokens=24,
    embedding=12,
    widths=(3, 5),
    filters=10,
    experts=3,
    expert_hidden=6,
    fully_connected=(7, 2),
    labels=("negative", "positive"),
    weights=None,
    seed=7,
    golden=None,
)
# The school's network, every size but the sentence and the widths divided by 64.
SCHOOL = replace(
    RAGGED,
    vocabulary_size=338,
    length=16,
    max_tokens=16,
    embedding=64,
    widths=(3, 5, 7, 9),
    filters=16,
    experts=4,
    expert_hidden=32,
    fully_connected=(16, 8, 2),
)
# Of the shipped model's kind: long ragged sentences, several widths.
SENTIMENT = replace(
    RAGGED,
    vocabulary_size=500,
    max_tokens=256,
    embedding=32,
    widths=(3, 5, 7, 9),
    filters=24,
    experts=4,
    expert_hidden=32,
    fully_connected=(16, 2),
)
# Of as many values before as after its first layers, around which shortcuts lead; more than `skinny` takes.
RESIDUAL = replace(RAGGED, expert_hidden=20, fully_connected=(20, 20, 7, 2), residual=(0, 1))
# The edges: one filter of one width, one expert, nothing hidden, one label more.
SMALLEST = replace(
    RAGGED,
    embedding=1,
    widths=(1,),
    filters=1,
    experts=1,
    expert_hidden=1,
    fully_connected=(3,),
    labels=("bad", "so-so", "good"),
)
NETWORKS = {"ragged": RAGGED, "school": SCHOOL, "sentiment": SENTIMENT, "smallest": SMALLEST}
CPU = {"convolution": "folded", "experts": "folded"}
# A kernel a layer; then all that the fp32 engine can do.
NAIVE = {
    "convolution": "direct",
    "experts": "separate",
    "gemm": "naive",
    "epilogue": "separate",
    "copies": "pinned",
    "allocation": "once",
    "order": "in_turn",
    "launch": "stream",
}
FUSED = {**NAIVE, "convolution": "implicit", "gemm": "sgemm", "epilogue": "fused"}

WAYS = {
    "naive products of stored windows": {"convolution": "im2col"},
    "tiled products": {"convolution": "im2col", "gemm": "tiled"},
    "sgemm, nothing fused": {"convolution": "im2col", "gemm": "sgemm"},
    "fused, windows stored": {**FUSED, "convolution": "im2col"},
    "implicit": FUSED,
    "side by side, as a graph": {**FUSED, "order": "side_by_side", "launch": "graph"},
    "Toom-Cook, experts folded": {**FUSED, "convolution": "toomcook", "experts": "folded"},
}


def weights_of(spec: ModelSpec, seed: int = 1) -> Weights:
    """Generated weights."""
    return assemble(spec, generate(spec, seed))


def lengths_of(spec: ModelSpec, count: int, seed: int = 0) -> list[int]:
    """Lengths that the network takes, the shortest and the longest among them."""
    random = np.random.default_rng(seed)
    lengths = random.integers(spec.min_tokens, spec.max_tokens + 1, count).tolist()
    lengths[:2] = [spec.min_tokens, spec.max_tokens][:count]
    return [int(length) for length in lengths]


def sentences(spec: ModelSpec, lengths: Sequence[int], seed: int = 0) -> TokenBatch:
    """Sentences of random words."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    random = np.random.default_rng(seed)
    return TokenBatch(random.integers(0, spec.vocabulary_size, offsets[-1], np.int32), offsets)


def plan(device: str, **keys: Any) -> Plan:
    """A plan of the device's own kind, small enough that a test's batch takes several turns."""
    sizes = {"precision": "fp32", "batch": 8, "streams": 3}
    own = CPU if device == "cpu" else NAIVE
    return Plan(device=device, **{**sizes, **own, **keys})
