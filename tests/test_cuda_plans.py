"""Every way in which the CUDA engine can compute a network, without a GPU: its kernels run on the CPU."""

from __future__ import annotations

import sys
from typing import Any

import fake_cupy
import networks
import numpy as np
import pytest

from accel_cli.batches import Batch
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.numeric import compare


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)


def engine_of(spec: ModelSpec, way: dict[str, Any], *, embeddings: bool = False) -> CudaEngine:
    weights = networks.weights_of(spec)
    return CudaEngine(
        spec, weights, networks.plan("cuda:0", **way, batch=5, streams=2), embeddings=embeddings
    )


def check(engine: CudaEngine, spec: ModelSpec, batch: Batch) -> None:
    expected = forward(spec, networks.weights_of(spec), batch)
    found = engine.submit(batch).result()
    difference = compare(found.logits, expected["logits"], 1e-4)
    assert difference.passed, str(difference)
    traced = engine.trace(batch)
    assert {"features", "gate", "logits"} <= set(traced)
    for name, value in traced.items():
        difference = compare(value, expected[name], 1e-4)
        assert difference.passed, f"{name}: {difference}"


@pytest.mark.parametrize("way", networks.WAYS.values(), ids=list(networks.WAYS))
@pytest.mark.parametrize("name", ["ragged", "school"])
def test_tokens(name: str, way: dict[str, Any]) -> None:
    spec = networks.NETWORKS[name]
    check(engine_of(spec, way), spec, networks.sentences(spec, networks.lengths_of(spec, 8, 0), 0))


@pytest.mark.parametrize("way", networks.WAYS.values(), ids=list(networks.WAYS))
def test_embeddings(way: dict[str, Any]) -> None:
    spec = networks.RAGGED
    batch = networks.sentences(spec, [9] * 7)
    values = networks.embedded(networks.weights_of(spec), batch)
    check(engine_of(spec, way, embeddings=True), spec, values)


def test_a_graph_is_replayed_with_new_sentences_and_dropped_with_new_lengths() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec, networks.WAYS["side by side, as a graph"])
    for seed, length in enumerate([9, 9, 9, 9, 6, 9]):
        batch = networks.sentences(spec, [length] * 10, seed=seed)
        expected = forward(spec, networks.weights_of(spec), batch)["logits"]
        difference = compare(engine.submit(batch).result().logits, expected, 1e-4)
        assert difference.passed, f"batch {seed}: {difference}"


def test_an_error_in_the_middle_of_a_capture_costs_one_batch() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec, networks.WAYS["side by side, as a graph"])
    batch = networks.sentences(spec, [9] * 10)  # one part for each slot, twice: the second one is captured
    expected = forward(spec, networks.weights_of(spec), batch)["logits"]
    engine.submit(batch).result()
    run, engine._run._run = engine._run._run, fail
    with pytest.raises(KeyboardInterrupt):
        engine.submit(batch)
    engine._run._run = run
    for _ in range(3):
        assert compare(engine.submit(batch).result().logits, expected, 1e-4).passed


def fail(*_: Any) -> None:
    raise KeyboardInterrupt


def test_windows_that_are_numbered_late_are_waited_for() -> None:
    spec = networks.replace(networks.RAGGED, filters=20)  # more than `skinny` takes
    way = {**networks.FUSED, "convolution": "im2col", "allocation": "per_call"}
    batch = networks.sentences(spec, [9, 5, 7])
    expected = forward(spec, networks.weights_of(spec), batch)["logits"]
    assert compare(engine_of(spec, way).submit(batch).result().logits, expected, 1e-4).passed


def test_slots_made_for_each_call_and_pageable_copies() -> None:
    spec = networks.RAGGED
    engine = engine_of(spec, {"allocation": "per_call", "copies": "pageable"})
    batch = networks.sentences(spec, networks.lengths_of(spec, 12, 0), 0)
    expected = forward(spec, networks.weights_of(spec), batch)["logits"]
    assert compare(engine.submit(batch).result().logits, expected, 1e-4).passed


def test_one_expert_and_one_filter() -> None:
    spec = networks.SMALLEST
    for way in networks.WAYS.values():
        check(engine_of(spec, way), spec, networks.sentences(spec, [1, 3, 2]))


def test_more_experts_than_an_epilogue_weighs() -> None:
    spec = networks.replace(networks.RAGGED, experts=5)
    assert spec.experts > 4
    batch = networks.sentences(spec, [9, 5])
    found = engine_of(spec, networks.FUSED).submit(batch).result().logits
    assert compare(found, forward(spec, networks.weights_of(spec), batch)["logits"], 1e-4).passed
    assert not np.isnan(found).any()
