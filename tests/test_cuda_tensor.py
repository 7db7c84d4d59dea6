"""The network on tensor cores or folded, without a GPU: its kernels run on the CPU."""

from __future__ import annotations

import sys
from typing import Any

import fake_cupy
import networks
import pytest

from accel_cli.engines import cuda
from accel_cli.engines.cuda import CudaEngine
from accel_cli.model.reference import forward
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
    ("school", "fp32", {"convolution": "folded", "experts": "folded"}, False),
]


@pytest.mark.parametrize(("name", "precision", "way", "embeddings"), WAYS)
def test_layers_and_logits(name: str, precision: str, way: dict[str, Any], embeddings: bool) -> None:
    spec = networks.NETWORKS[name]
    weights = networks.weights_of(spec)
    plan = networks.plan("cuda:0", **{**networks.FUSED, **way}, precision=precision, batch=5, streams=2)
    engine = CudaEngine(spec, weights, plan, embeddings=embeddings)
    lengths = [16] * 6 if embeddings else networks.lengths_of(spec, 8, 0)
    batch = networks.sentences(spec, lengths)
    expected = forward(spec, weights, batch)
    given = networks.embedded(weights, batch) if embeddings else batch
    found = compare(engine.submit(given).result().logits, expected["logits"], TOLERANCE[precision])
    assert found.passed, str(found)
    traced = engine.trace(given)
    assert {"features", "gate", "logits"} <= set(traced)
    for layer, value in traced.items():
        difference = compare(value, expected[layer], TOLERANCE[precision])
        assert difference.passed, f"{layer}: {difference}"
