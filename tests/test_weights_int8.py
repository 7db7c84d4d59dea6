"""An embedding in int8 with one scale a row: read as float32, refused when the two do not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel_cli.errors import WeightsError
from accel_cli.model.config import Config
from accel_cli.model.weights import SCALE, load_weights, save_weights, shapes


@pytest.fixture
def spec(tiny: Config):
    return replace(tiny.model, weights=None)


@pytest.fixture
def tensors(spec):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float16) for name, shape in shapes(spec).items()}
    table = rng.integers(-127, 128, shapes(spec)["embedding.weight"]).astype(np.int8)
    return {**arrays, "embedding.weight": table, SCALE: rng.random(spec.vocabulary_size, np.float32)}


def test_the_rows_are_multiplied_by_their_scales(spec, tensors, tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save_weights(path, spec, tensors)
    weights = load_weights(path, spec)
    expected = tensors["embedding.weight"].astype(np.float32) * tensors[SCALE][:, None]
    assert weights.embedding.dtype == np.float32
    np.testing.assert_array_equal(weights.embedding, expected)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"embedding.weight": np.float16}, "expected int8"),
        ({SCALE: np.int8}, "expected float16 or float32"),
        ({SCALE: None}, "embedding.weight is int8"),
    ],
)
def test_what_does_not_belong_together_is_refused(spec, tensors, tmp_path: Path, change, problem):
    for name, dtype in change.items():
        tensor = tensors.pop(name)
        if dtype is not None:
            tensors[name] = tensor.astype(dtype)
    with pytest.raises(WeightsError, match=problem):
        save_weights(tmp_path / "model.safetensors", spec, tensors)


def test_a_scale_for_each_row(spec, tensors, tmp_path: Path):
    with pytest.raises(WeightsError, match=r"embedding.scale has shape"):
        save_weights(tmp_path / "model.safetensors", spec, {**tensors, SCALE: tensors[SCALE][1:]})
