"""What each stage of a batch takes of what a device has, by a plan and the words of the batch.

FLOP are those of products as they are computed, so that split operands count three times, and the additions
of table rows. Bytes of the memory are every array of a stage once: what it reads, weights, what it writes; of
a folded table each row once that the batch asks for. The caches serve the same, and of a folded table every
row as often as it is added. What tiles read again is counted nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from accel_cli.batches import TokenBatch
from accel_cli.bench.limits import FP32, L1, L2, MEMORY_BYTES, PCIE_IN, PCIE_OUT, Demand, tensor
from accel_cli.bench.traffic import convolution_bytes
from accel_cli.bench.work import VALUE_BYTES, by_stage, layers
from accel_cli.engines.base import Plan
from accel_cli.engines.folded_size import layout_of, table_of
from accel_cli.kernels.folded_layout import TableType
from accel_cli.kernels.skinny import WIDEST
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import layer_names

_NUMBER = 4  # bytes of an id, an offset, a label, and of what is always in fp32
_FMA = 2  # FLOP that the units for fp32 would do in the time of an addition


@dataclass(frozen=True)
class Need:
    """Operations, and how much of each resource a stage takes."""

    flop: float = 0.0
    demand: Demand = field(default_factory=dict)


def mean(needs: Sequence[Need]) -> Need:
    """What one of several batches takes on average."""
    names = dict.fromkeys(name for need in needs for name in need.demand)
    each = {name: sum(need.demand.get(name, 0.0) for need in needs) / len(needs) for name in names}
    return Need(sum(need.flop for need in needs) / len(needs), each)


def host_needs(spec: ModelSpec, plan: Plan, batch: TokenBatch, stages: Sequence[str]) -> dict[str, Need]:
    """The needs of the CPU engine's stages: bytes as in bench.work, where table rows count each time."""
    works = by_stage(layers(spec, plan, batch), stages)
    folded = plan.convolution == "folded"
    return {
        name: Need(
            work.flop,
            {
                FP32: float(work.flop * (_FMA if folded and name == "features" else 1)),
                MEMORY_BYTES: float(work.bytes),
            },
        )
        for name, work in works.items()
    }


def device_needs(spec: ModelSpec, plan: Plan, batch: TokenBatch) -> dict[str, Need]:
    """The needs of the stages of a batch of ids on a CUDA device by their names, copies included."""
    sentences, labels = len(batch), len(spec.labels)
    ids = _NUMBER * (len(batch.ids) + sentences + 1)
    results = _NUMBER * sentences * (2 * labels + 1)
    convolution = _folded if plan.convolution == "folded" else _products
    return {
        "copies in": Need(0, {PCIE_IN: ids}),
        "features": convolution(spec, plan, batch),
        **_head(spec, plan, sentences),
        "copies out": Need(0, {PCIE_OUT: results}),
    }


def _folded(spec: ModelSpec, plan: Plan, batch: TokenBatch) -> Need:
    """Every row of the table that is added; of a table of whole numbers no additions in fp32."""
    layout = layout_of(spec, table_of(plan.precision))
    row = layout.slices * layout.row_bytes
    sentences, tokens = len(batch), len(batch.ids)
    windows = [(width, tokens - sentences * (width - 1)) for width in spec.widths]
    additions = sum((width - 1) * count for width, count in windows) * spec.filters
    gathered = sum(width * count for width, count in windows) * row
    rest = _NUMBER * (tokens + sentences + 1) + sentences * spec.features * VALUE_BYTES[plan.precision]
    fp32 = {FP32: float(_FMA * additions)} if layout.type == TableType.FP32 else {}
    caches = float(gathered + rest)
    return Need(
        additions,
        {L1: caches, L2: caches, MEMORY_BYTES: distinct_rows(batch, spec.widths) * row + rest, **fp32},
    )


def distinct_rows(batch: TokenBatch, widths: Sequence[int]) -> int:
    """The rows of a folded table that a batch asks for: the words that stand at each tap of any window."""
    starts, ends = batch.offsets[:-1], batch.offsets[1:]
    places = np.arange(len(batch.ids))
    before = places - np.repeat(starts, batch.lengths)  # words of the sentence before each
    behind = np.repeat(ends, batch.lengths) - places  # and from it on
    rows = 0
    for width in widths:
        for tap in range(width):
            rows += np.count_nonzero(np.bincount(batch.ids[(before >= tap) & (behind >= width - tap)]))
    return int(rows)


def _products(spec: ModelSpec, plan: Plan, batch: TokenBatch) -> Need:
    """A convolution by products, whichever."""
    moved = convolution_bytes(spec, plan, batch.lengths) + _NUMBER * len(batch.ids)
    flop = sum(
        work.flop for name, work in layers(spec, plan, batch).items() if name.startswith("convolution.")
    )
    return _need(plan, flop, moved)


def _head(spec: ModelSpec, plan: Plan, sentences: int) -> dict[str, Need]:
    """Gate, experts and fully connected layers; folded experts are the first of these."""
    size, folded = VALUE_BYTES[plan.precision], plan.experts == "folded"
    features, experts, labels = spec.features, spec.experts, len(spec.labels)
    names = [name for name in layer_names(spec) if name.startswith("fc.") or name == "logits"]
    stages = names if folded else ["experts", *names]
    first, *rest = spec.fully_connected if folded else (spec.expert_hidden, *spec.fully_connected)
    gate = _NUMBER * sentences * experts  # in fp32 whatever the precision
    weights = _NUMBER * (features + 1) * experts
    needs = {
        "gate": _need(
            plan,
            2 * sentences * features * experts,
            size * sentences * features + weights + gate,
            narrow=True,
        )
    }
    flop = 2 * sentences * (features + 1) * experts * first
    moved = size * (sentences * (features + first) + (features + 1) * experts * first) + gate
    needs[stages[0]] = _need(plan, flop, moved)
    for name, inputs, outputs in zip(stages[1:], (first, *rest), rest, strict=False):
        written = _NUMBER * sentences * (labels + 1) if name == "logits" else 0  # scores and labels
        moved = size * (sentences * (inputs + outputs) + (inputs + 1) * outputs) + written
        narrow = name == "logits" and outputs <= WIDEST
        needs[name] = _need(plan, 2 * sentences * inputs * outputs, moved, narrow=narrow)
    return needs


def _need(plan: Plan, flop: int, moved: int, *, narrow: bool = False) -> Need:
    """A product's; those of few outputs stay off the tensor cores."""
    unit = FP32 if narrow or plan.precision == "fp32" else tensor(plan.precision)
    computed = float(3 * flop if plan.precision == "fp32-split" and unit != FP32 else flop)
    return Need(computed, {unit: computed, L2: float(moved), MEMORY_BYTES: float(moved)})
