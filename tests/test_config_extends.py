"""Configurations that extend others."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from config_files import Write, refusal, write_config

from accel_cli.model.config import load_config


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_config, tmp_path)


def test_extending_a_file(write: Write, tmp_path: Path) -> None:
    write("base.yaml", plan={"batch": 7, "streams": 2})
    child = tmp_path / "child.yaml"
    child.write_text("name: child\nextends: base.yaml\nmodel: {filters: 4}\nplan: {batch: auto}\n")
    config = load_config(child)
    assert (config.name, config.model.filters, config.model.embedding) == ("child", 4, 12)
    assert (config.plan.batch, config.plan.streams) == (0, 2)


def test_extending_twice(write: Write, tmp_path: Path) -> None:
    write("base.yaml", model__filters=4)
    (tmp_path / "middle.yaml").write_text("extends: base.yaml\nmodel: {experts: 2}\n")
    (tmp_path / "last.yaml").write_text("extends: middle.yaml\nmodel: {expert_hidden: 9}\n")
    spec = load_config(tmp_path / "last.yaml").model
    assert (spec.filters, spec.experts, spec.expert_hidden) == (4, 2, 9)


def test_extending_a_packaged_one_by_its_bare_name(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("extends: school\nmodel: {weights: {seed: 3}}\n")
    spec, base = load_config(path).model, load_config("school").model
    assert (spec.seed, base.seed) == (3, 2025)
    assert spec.vocabulary == base.vocabulary
    assert load_config(path).name == "school"


def test_own_weights_replace_those_of_the_base_whole(write: Write, tmp_path: Path) -> None:
    write("file.yaml", model__weights="w.safetensors")
    (tmp_path / "seeded.yaml").write_text("extends: file.yaml\nmodel: {weights: {seed: 5}}\n")
    (tmp_path / "filed.yaml").write_text("extends: seeded.yaml\nmodel: {weights: v.safetensors}\n")
    assert (load_config(tmp_path / "seeded.yaml").model.weights) is None
    assert load_config(tmp_path / "seeded.yaml").model.seed == 5
    assert load_config(tmp_path / "filed.yaml").model.weights == tmp_path / "v.safetensors"


def test_extending_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("extends: b.yaml\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\n")
    message = refusal(tmp_path / "a.yaml")
    assert "extends itself through" in message
    assert "b.yaml" in message


@pytest.mark.parametrize(
    ("base", "words"), [("nope", "no packaged configuration"), ("no.yaml", "no configuration file")]
)
def test_extending_what_is_not_there(tmp_path: Path, base: str, words: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"extends: {base}\n")
    message = refusal(path)
    assert words in message
    assert str(path) in message


def test_extends_must_be_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("extends: [a, b]\n")
    assert "extends must be a string" in refusal(path)


def test_an_error_in_the_base_names_the_base(write: Write, tmp_path: Path) -> None:
    base = write("base.yaml", modle={})
    (tmp_path / "child.yaml").write_text("extends: base.yaml\n")
    assert str(base) in refusal(tmp_path / "child.yaml")
