"""Every way in which the CUDA engine can compute a network, without a GPU: its kernels run on the CPU."""

from __future__ import annotations

import sys
from typing import Any

import fake_cupy
import networks
import numpy as np
import pytest

from accel_cli.batches import Batch
from accel_cli.cuda.streams import Branches
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.errors import DeviceError
from accel_cli.kernels.base import Launch
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.numeric import compare

QUICK = ("naive products of stored windows", "side by side, as a graph")


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
@pytest.mark.parametrize("name", ["ragged", pytest.param("school", marks=pytest.mark.extras)])
def test_tokens(name: str, way: dict[str, Any]) -> None:
    spec = networks.replace(networks.NETWORKS[name], filters=20)  # more than `skinny` takes from sgemm
    check(engine_of(spec, way), spec, networks.sentences(spec, networks.lengths_of(spec, 8, 0), 0))


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name, marks=() if name in QUICK else pytest.mark.extras)
        for name, way in networks.WAYS.items()
    ],
)
def test_embeddings(way: dict[str, Any]) -> None:
    spec = networks.RAGGED
    batch = networks.sentences(spec, [9] * 7)
    values = batch.embedded(networks.weights_of(spec).embedding)
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


def test_a_batch_of_more_tokens_than_can_be_counted_is_refused() -> None:
    spec = networks.replace(networks.RAGGED, length=4096, max_tokens=4096)
    plan = networks.plan("cuda:0", batch=1 << 20)
    with pytest.raises(DeviceError, match=r"has room for 4294967296 tokens.* ask for a smaller --batch"):
        CudaEngine(spec, networks.weights_of(spec), plan)


def test_what_is_made_for_each_call_is_not_held_between() -> None:
    spec = networks.RAGGED
    engines = [engine_of(spec, {"allocation": allocation}) for allocation in ("per_call", "once")]
    batch = networks.sentences(spec, [9, 5, 7])
    engines[0].submit(batch).result()
    assert [len(engine._slots) for engine in engines] == [0, 2]


def test_one_branch_has_none_beside_it() -> None:
    assert [Branches(count).several for count in (0, 1, 2)] == [False, False, True]


def test_a_side_stream_is_waited_for_after_an_error() -> None:
    fake = fake_cupy.module()
    branches, done = Branches(1), []
    main = fake.cuda.Stream()

    def fail() -> None:
        with branches.side_by_side(), branches.branch(0):
            fake.cuda.get_current_stream().enqueue(lambda: done.append(True))
            raise ValueError

    with main:
        with pytest.raises(ValueError):  # noqa: PT011
            fail()
        main.synchronize()
    assert done == [True]


@pytest.mark.extras
def test_one_expert_and_one_filter() -> None:
    spec = networks.SMALLEST
    for way in networks.WAYS.values():
        check(engine_of(spec, way), spec, networks.sentences(spec, [1, 3, 2]))


@pytest.mark.parametrize(
    ("width", "way"),  # 6 outputs are for `skinny` even where the product is sgemm
    [
        (20, "naive products of stored windows"),
        (20, "implicit"),
        (6, "implicit"),
        pytest.param(20, "sgemm, nothing fused", marks=pytest.mark.extras),
        pytest.param(20, "tiled products", marks=pytest.mark.extras),
        pytest.param(20, "side by side, as a graph", marks=pytest.mark.extras),
    ],
)
def test_shortcuts(width: int, way: str) -> None:
    outputs = width, width, 7, 2
    spec = networks.replace(networks.RESIDUAL, expert_hidden=width, fully_connected=outputs)
    check(engine_of(spec, networks.WAYS[way]), spec, networks.sentences(spec, [9, 5, 7]))


def test_a_shortcut_behind_folded_experts() -> None:
    spec = networks.replace(networks.RESIDUAL, residual=(1,))
    way = {**networks.FUSED, "experts": "folded"}
    check(engine_of(spec, way), spec, networks.sentences(spec, [9, 5, 7]))


def test_a_shortcut_is_the_end_of_a_product_or_one_kernel_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[str] = []

    class Noting(fake_cupy.Launcher):
        def __call__(self, launch: Launch, *arguments: Any) -> None:
            launched.append(launch.kernel.name)
            super().__call__(launch, *arguments)

    monkeypatch.setattr(cuda, "Launcher", Noting)
    spec = networks.RESIDUAL
    for way, tail in {
        "naive products of stored windows": ["linear", "relu_add"] * 2 + ["linear", "relu", "linear"],
        "implicit": ["sgemm", "sgemm", "skinny", "relu", "skinny"],
    }.items():
        engine = engine_of(spec, networks.WAYS[way])
        launched.clear()
        engine.submit(networks.sentences(spec, [9, 5])).result()
        head = [name for name in launched if name not in ("softmax", "argmax")]
        assert head[-len(tail) :] == tail


def test_more_experts_than_an_epilogue_weighs() -> None:
    spec = networks.replace(networks.RAGGED, experts=5)
    assert spec.experts > 4
    batch = networks.sentences(spec, [9, 5])
    found = engine_of(spec, networks.FUSED).submit(batch).result().logits
    assert compare(found, forward(spec, networks.weights_of(spec), batch)["logits"], 1e-4).passed
    assert not np.isnan(found).any()
