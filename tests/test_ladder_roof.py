"""What bounds a rung: the bytes that it moves, and the most that the device can do."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import ladders
import numpy as np
import pytest

from accel_cli.bench.ceiling import Ceiling, measure_ceiling
from accel_cli.bench.rungs import rungs
from accel_cli.bench.traffic import bytes_each
from accel_cli.errors import AccelError
from accel_cli.model.toomcook import toom_cook


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ladders.make_ladder(tmp_path_factory.mktemp("climbed"))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    ladders.fake_gpu(monkeypatch)


class TestTraffic:
    """Bytes of a sentence by hand: 6 tokens of 16 values, widths 2 and 3, 8 filters each."""

    HEAD = 4 * (  # for one sentence; inputs, weights, biases, outputs of each product; then the mixture
        (16 + 17 * 4 + 4) + (16 + 17 * 32 + 32) + (32 + 4 + 8) + (8 + 9 * 8 + 8) + (8 + 9 * 2 + 2)
    )
    WEIGHTS = 4 * (2 + 3) * 16 * 8

    @pytest.mark.parametrize(
        ("number", "kind", "values"),
        [
            (3, "embeddings", 96 + 4 * (6 + 6) * 8 + 16),
            (3, "ids", 3 * 96 + 4 * (6 + 6) * 8 + 16),
            (6, "ids", 3 * 96 + 2 * (5 * 2 + 4 * 3) * 16 + 4 * (5 + 4) * 8 + 16),
            (7, "embeddings", 3 * 96 + 2 * (5 * 2 + 4 * 3) * 16 + 16),
            (8, "embeddings", 3 * 96 + 16),
            (8, "ids", 96 + 16),
        ],
    )
    def test_activations(self, gpu: None, folder: Path, number: int, kind: str, values: int) -> None:
        (rung,) = rungs(folder, frozenset({number}), "auto")
        found = bytes_each(rung.config.model, rung.plan, kind, 1)
        assert found == self.HEAD + self.WEIGHTS + 4 * values

    def test_toom_cook_moves_transformed_sentences_and_products(self, gpu: None, folder: Path) -> None:
        (rung,) = rungs(folder, frozenset({10}), "auto")
        spec = rung.config.model
        points = toom_cook(6, spec.widths).products
        one, many = (bytes_each(spec, rung.plan, "ids", batch) for batch in (1, 1 << 20))
        assert one - many > 0.99 * 4 * points * 16 * 16  # weights, once a batch
        assert many > 4 * (96 + 2 * points * (16 + 16) + 16)


def test_ceilings_by_our_own_product_where_there_is_no_cublas(gpu: None) -> None:
    found = measure_ceiling(0, 8, 1 << 12)
    assert (found.program, found.size) == ("accel's sgemm", 8)
    assert found.flop > 0
    assert found.memory > 0


def test_ceilings_of_tensor_cores_are_those_of_cublas(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["cupy"]
    module.matmul = lambda a, b, out: np.matmul(a, b, out=out)  # type: ignore[attr-defined]
    types, asked = SimpleNamespace(COMPUTE_TYPE_TF32="tf32", get_compute_type=lambda dtype: "before"), []
    types.set_compute_type = lambda dtype, kind: asked.append(kind)
    monkeypatch.setitem(sys.modules, "cupy._core._routines_linalg", types)
    found = measure_ceiling(0, 8, 1 << 12)
    assert (found.program, set(found.tensor)) == ("cuBLAS", {"tf32", "fp16"})
    assert asked == ["tf32", "before"]
    assert found.of("bf16") == found.of("fp16") == found.tensor["fp16"] > 0
    assert found.of("fp32-split") == found.of("fp32") == found.flop
    assert Ceiling("ours", 8, 1.0, 1.0).of("fp16") is None


def test_a_product_that_is_not_exact_is_no_ceiling(gpu: None) -> None:
    module = sys.modules["cupy"]
    module.matmul = lambda a, b, out: out.fill(1) or out  # type: ignore[attr-defined]
    with pytest.raises(AccelError, match=r"no ceiling, because cuBLAS is not exact to fp32 here"):
        measure_ceiling(0, 8, 1 << 12)
