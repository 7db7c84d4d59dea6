"""Generated weights: the same bits everywhere, scaled so that activations keep their size, and cached."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import networks
import numpy as np
import pytest
from conftest import ROOT

from accel_cli.errors import AccelWarning, WeightsError
from accel_cli.model import generate as module
from accel_cli.model.generate import generate, generated_path, normals, obtain_weights
from accel_cli.model.reference import forward
from accel_cli.model.weights import digest, fingerprint, load_weights, save_weights, shapes

SPEC = networks.RAGGED
# Recorded once: whatever changes them changes every generated network on every machine.
TENSOR = "b3fb1c17ce2ce9271a79b5675821099982ceab462e126b738c32e3669969ac77"
NETWORK = "580f30c16fdf020e0d66cd3ab0297dd9f2d219707cfa42e4964281fc01b49958"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of this test's own."""
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_bits_of_a_tensor_never_change() -> None:
    values = normals(7, "gate.weight", 6, 0.5)
    expected = [-0.1625926, 0.18877509, 0.5909714, 0.15414724, 0.38664877, 0.18097328]
    assert values.tolist() == np.array(expected, np.float32).tolist()
    assert digest({"a": normals(2025, "embedding.weight", 1000, 1.0)}) == TENSOR


def test_the_bits_of_a_network_never_change() -> None:
    assert digest(generate(SPEC, 7)) == NETWORK


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1000])
def test_a_shorter_tensor_is_the_beginning_of_a_longer_one(count: int) -> None:
    np.testing.assert_array_equal(normals(1, "a", count, 1.0), normals(1, "a", 1001, 1.0)[:count])


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = normals(1, "a", 5000, 1.0)
    for block in (1, 7, 64):
        monkeypatch.setattr(module, "_BLOCK", block)
        np.testing.assert_array_equal(normals(1, "a", 5000, 1.0), whole)


def test_a_tensor_depends_on_seed_and_name_alone() -> None:
    wide, own = generate(replace(SPEC, experts=5, widths=(3, 5, 7)), 7), generate(SPEC, 7)
    for name in ("embedding.weight", "convolution.3.weight", "fc.0.weight", "fc.1.bias"):
        np.testing.assert_array_equal(wide[name], own[name])
    assert digest(generate(SPEC, 8)) != digest(own)
    assert not np.array_equal(own["experts.0.weight"], own["experts.1.weight"])


def test_tensors_are_independent_of_each_other() -> None:
    rows = np.stack([normals(seed, name, 20_000, 1.0) for seed in (1, 2) for name in ("a", "b", "c")])
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() < 0.03
    shifted = [np.corrcoef(rows[0][:-lag], rows[0][lag:])[0, 1] for lag in range(1, 9)]
    assert np.abs(shifted).max() < 0.03


def test_values_are_normal() -> None:
    values = normals(1, "x", 1 << 20, 1.0).astype(np.float64)
    assert abs(values.mean()) < 4e-3
    assert abs(values.var() - 1) < 5e-3
    assert abs((values**3).mean()) < 0.02
    assert abs((values**4).mean() - 3) < 0.03
    assert np.abs(values).max() < 4.5


def variance(name: str, shape: tuple[int, ...]) -> float:
    """The variance that a tensor is to have."""
    if name.endswith("bias"):
        return 0.01
    if name.startswith("embedding"):
        return 1.0
    inputs = int(np.prod(shape[1:]))
    return (2 if name.startswith("fc") else 1) / inputs


def test_every_tensor_has_its_variance() -> None:
    spec = replace(
        networks.SCHOOL, embedding=256, filters=128, expert_hidden=256, fully_connected=(256, 128, 2)
    )
    made = generate(spec, 2025)
    for name, shape in shapes(spec).items():
        values, expected = made[name].astype(np.float64), variance(name, shape)
        assert values.shape == shape
        deviations = 6 * np.sqrt(2 / values.size)  # six standard deviations of an estimated variance
        assert abs(values.var() / expected - 1) < deviations, name
        assert abs(values.mean()) < 6 * np.sqrt(expected / values.size), name


def test_activations_have_the_sizes_that_the_specification_states() -> None:
    """Features of 1.6 +- 0.6 and logits of deviation 1: with tiny logits any tolerance would pass."""
    features, deviations = [], []
    for seed in range(16):
        batch = networks.sentences(networks.SCHOOL, [16] * 24, seed)
        layers = forward(networks.SCHOOL, networks.weights_of(networks.SCHOOL, seed), batch)
        features.append(layers["features"])
        deviations.append(layers["logits"].std())
    assert np.mean(features) == pytest.approx(1.6, abs=0.1)
    assert np.std(features) == pytest.approx(0.6, abs=0.05)
    assert np.mean(deviations) == pytest.approx(1.0, abs=0.3)


def test_generated_weights_are_cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = obtain_weights(SPEC)
    assert generated_path(SPEC).is_relative_to(cache)
    assert list((cache / "weights").iterdir()) == [generated_path(SPEC)]
    monkeypatch.setattr(module, "generate", lambda *_: pytest.fail("made again"))
    assert fingerprint(obtain_weights(SPEC)) == fingerprint(first)


def test_each_seed_and_shape_has_its_own_entry(cache: Path) -> None:
    specs = [SPEC, replace(SPEC, seed=8), replace(SPEC, filters=11), replace(SPEC, widths=(3, 7))]
    assert len({generated_path(spec) for spec in specs}) == 4
    assert generated_path(replace(SPEC, max_tokens=99)) == generated_path(SPEC)


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("damage", [flipped, lambda content: content[:500], lambda content: b""])
def test_a_damaged_entry_is_made_again(cache: Path, damage) -> None:
    whole = fingerprint(obtain_weights(SPEC))
    path = generated_path(SPEC)
    path.write_bytes(damage(path.read_bytes()))
    assert fingerprint(obtain_weights(SPEC)) == whole
    assert fingerprint(load_weights(path, SPEC)) == whole


def test_a_foreign_entry_is_made_again(cache: Path) -> None:
    other = replace(SPEC, filters=11)
    save_weights(generated_path(SPEC), other, generate(other, 7))
    assert obtain_weights(SPEC).embedding.shape == (40, 12)
    assert obtain_weights(SPEC).convolutions[0].bias.shape == (10,)


@pytest.fixture
def read_only(cache: Path) -> Iterator[Path]:
    """A cache that nobody can write to, root included: a file stands where the folder should be."""
    cache.write_bytes(b"")
    yield cache
    cache.chmod(stat.S_IRWXU)


def test_an_unwritable_cache_costs_only_the_cache(read_only: Path) -> None:
    with pytest.warns(AccelWarning, match="the generated weights are not kept: cannot write"):
        assert fingerprint(obtain_weights(SPEC)) == fingerprint(obtain_weights(SPEC))
    assert read_only.read_bytes() == b""


def test_two_processes_at_once(cache: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:];"
        "import networks; from accel_cli.model.generate import obtain_weights;"
        "from accel_cli.model.weights import fingerprint;"
        "print(fingerprint(obtain_weights(networks.SENTIMENT)))"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) for _ in range(2)]
    said = {process.communicate(timeout=60)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert said == {fingerprint(networks.weights_of(networks.SENTIMENT, 7)).encode() + b"\n"}
    assert list((cache / "weights").iterdir()) == [generated_path(networks.SENTIMENT)]


def test_a_named_file_is_read_and_nothing_is_cached(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, SPEC, generate(SPEC, 99))
    named = replace(SPEC, weights=path, seed=0)
    assert fingerprint(obtain_weights(named)) == fingerprint(networks.weights_of(SPEC, 99))
    path.unlink()
    with pytest.raises(WeightsError, match="no weights file"):
        obtain_weights(named)
    assert not cache.exists()
