"""The network on tensor cores or folded, without a GPU: its kernels run on the CPU."""

from __future__ import annotations

import sys
from typing import Any

import fake_cupy
import fake_streams
import networks
import numpy as np
import pytest

from accel_cli.cuda import stopwatch
from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.engines.planner import available_plans
from accel_cli.model.config import ModelSpec, PlanSpec
from accel_cli.model.reference import forward, softmax
from accel_cli.numeric import compare
from accel_cli.validation import TOLERANCE

pytestmark = pytest.mark.extras  # minutes of compiling


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)


# network, precision, and what else is not as in FUSED; whether embeddings are the input
WAYS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("school", "fp16", {"gemm": "wgmma"}, False),
    ("ragged", "fp32-split", {"gemm": "wgmma", "experts": "folded"}, True),
    ("ragged", "tf32", {"gemm": "mma", "experts": "folded"}, False),
    ("smallest", "bf16", {"gemm": "mma"}, True),
    ("school", "fp32-split", {"gemm": "wgmma", "convolution": "toomcook"}, False),
    ("ragged", "fp16", {"gemm": "wgmma", "convolution": "folded", "experts": "folded"}, False),
    ("ragged", "fp32-split", {"gemm": "wgmma", "convolution": "folded"}, False),
    ("school", "tf32", {"gemm": "mma", "convolution": "folded"}, False),
    ("smallest", "bf16", {"gemm": "mma", "convolution": "folded"}, False),
    ("school", "fp32", {"convolution": "folded", "experts": "folded"}, False),
]


# The ends of a head: experts that give the logits, and more labels than one kernel scores.
HEADS = {
    "no layer after the experts": networks.replace(networks.RAGGED, expert_hidden=8, fully_connected=(2,)),
    "17 labels": networks.replace(
        networks.RAGGED, fully_connected=(7, 17), labels=tuple(map(str, range(17)))
    ),
}


@pytest.mark.parametrize(("precision", "gemm"), [("fp32", "sgemm"), ("fp16", "mma")])
@pytest.mark.parametrize("spec", HEADS.values(), ids=list(HEADS))
def test_the_ends_of_a_head(spec: ModelSpec, precision: str, gemm: str) -> None:
    weights, batch = networks.weights_of(spec), networks.sentences(spec, [9, 5, 7])
    way = {**networks.FUSED, "experts": "folded", "gemm": gemm}
    plan = networks.plan("cuda:0", **way, precision=precision, batch=5, streams=1)
    found = CudaEngine(spec, weights, plan).submit(batch).result()
    expected = forward(spec, weights, batch)["logits"]
    difference = compare(found.logits, expected, TOLERANCE[precision])
    assert difference.passed, str(difference)
    assert compare(found.scores, softmax(found.logits), 1e-5).passed
    np.testing.assert_array_equal(found.labels, found.logits.argmax(1))


@pytest.mark.parametrize("precision", list(TOLERANCE))
def test_shortcuts_in_every_plan(precision: str) -> None:
    """Around wide layers and narrow ones; each plan's layers are those of the reference."""
    for width, residual in ((20, (0, 1)), (6, (1,))):
        sizes = {"expert_hidden": width, "fully_connected": (width, width, 7, 2)}
        spec = networks.replace(networks.RESIDUAL, **sizes, residual=residual)
        weights, batch = networks.weights_of(spec), networks.sentences(spec, [9, 5, 7])
        expected = forward(spec, weights, batch)
        plans = available_plans(spec, PlanSpec(precision=precision, batch=2, streams=1), "cuda:0")
        found = [plan for plan in plans if plan.precision == precision]
        assert {plan.experts for plan in found} == ({"separate"} if 0 in residual else {"separate", "folded"})
        for plan in found:
            for layer, value in CudaEngine(spec, weights, plan).trace(batch).items():
                difference = compare(value, expected[layer], TOLERANCE[precision])
                assert difference.passed, f"{plan} {layer}: {difference}"


@pytest.mark.parametrize("precision", ["fp16", "fp32-split"])
def test_a_folded_network_is_a_launch_a_layer(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """No cast, no softmax, no argmax: each layer leaves what the next one reads."""
    monkeypatch.setattr(stopwatch, "_HEAD_START", 0.0)
    fake_streams.fake_driver(monkeypatch)
    spec = networks.SCHOOL
    way = {**networks.FUSED, "convolution": "folded", "experts": "folded", "gemm": "wgmma"}
    plan = networks.plan("cuda:0", **way, precision=precision, batch=5, streams=1)
    engine = CudaEngine(spec, networks.weights_of(spec), plan)
    names = [span.name for span in engine.kernel_times(networks.sentences(spec, [16] * 5))]
    layers = ["folded_convolution", "skinny", "wgmma_gemm", "wgmma_gemm", "skinny"]
    assert names == ["copies in", *layers, "copies out"]


def test_fp16_features_are_within_the_schools_measure() -> None:
    """5e-3, which is ten times 2^-11.

    A feature is rounded to 11 bits once, after a sum of 16-bit values that are finer still; so are operands
    of products. Errors of either sign, under weights of about 1 / sqrt(depth), do not grow with the layers.
    """
    spec, plan = networks.SCHOOL, {**networks.FUSED, "convolution": "folded", "experts": "folded"}
    plan = networks.plan("cuda:0", **{**plan, "gemm": "wgmma"}, precision="fp16", batch=64, streams=1)
    weights, batch = networks.weights_of(spec), networks.sentences(spec, [16] * 64)
    traced, expected = CudaEngine(spec, weights, plan).trace(batch), forward(spec, weights, batch)
    assert traced["features"].dtype == "float32"
    errors = {name: compare(traced[name], expected[name], 5e-3) for name in ("features", "gate", "logits")}
    assert all(error.passed for error in errors.values()), errors
    assert errors["features"].error > 1e-5, "nothing was rounded"


@pytest.mark.parametrize(("name", "precision", "way", "embeddings"), WAYS)
def test_layers_and_logits(name: str, precision: str, way: dict[str, Any], embeddings: bool) -> None:
    spec = networks.NETWORKS[name]
    weights = networks.weights_of(spec)
    plan = networks.plan("cuda:0", **{**networks.FUSED, **way}, precision=precision, batch=5, streams=2)
    engine = CudaEngine(spec, weights, plan, embeddings=embeddings)
    lengths = [16] * 6 if embeddings else networks.lengths_of(spec, 8, 0)
    batch = networks.sentences(spec, lengths)
    expected = forward(spec, weights, batch)
    given = batch.embedded(weights.embedding) if embeddings else batch
    found = compare(engine.submit(given).result().logits, expected["logits"], TOLERANCE[precision])
    assert found.passed, str(found)
    traced = engine.trace(given)
    assert {"features", "gate", "logits"} <= set(traced)
    for layer, value in traced.items():
        difference = compare(value, expected[layer], TOLERANCE[precision])
        assert difference.passed, f"{layer}: {difference}"
