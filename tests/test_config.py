"""Configurations: what is read from them, and the one clear line for each thing that is wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from config_files import REMOVE, Write, refusal, write_config

from accel_cli import resources
from accel_cli.model.config import MODEL_KEYS, PLAN_KEYS, PlanSpec, load_config, packaged


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_config, tmp_path)


def test_the_tiny_one(tiny_path: Path) -> None:
    config = load_config(tiny_path)
    spec = config.model
    assert (config.name, config.path) == ("tiny", tiny_path)
    assert config.plan == PlanSpec()
    assert (spec.length, spec.max_tokens, spec.min_tokens, spec.widest) == (None, 24, 5, 5)
    assert (spec.features, spec.taps, spec.seed) == (20, 8, 7)
    assert spec.vocabulary == tiny_path.parent / "vocabulary.txt"
    assert (spec.weights, spec.golden) == (None, None)


@pytest.mark.parametrize("name", packaged())
def test_packaged_ones(name: str) -> None:
    spec = load_config(name).model
    assert load_config(resources.CONFIGS / f"{name}.yaml").model == spec
    assert load_config(name).name == name
    assert spec.labels == ("negative", "positive")
    assert spec.vocabulary.parent.parent == resources.WEIGHTS


def test_the_school_network_has_the_sizes_of_the_course() -> None:
    spec = load_config("school").model
    assert (spec.length, spec.min_tokens, spec.max_tokens) == (16, 16, 16)
    assert (spec.vocabulary_size, spec.embedding, spec.filters) == (21635, 4096, 1024)
    assert (spec.experts, spec.expert_hidden, spec.fully_connected) == (4, 2048, (1024, 512, 2))
    assert load_config("school-2024").model.golden is None


@pytest.mark.parametrize(
    ("change", "key", "hint"),
    [
        ({"modle": {}}, "modle", "did you mean 'model'?"),
        ({"model__filtres": 3}, "model.filtres", "did you mean 'filters'?"),
        ({"model__zzz": 3}, "model.zzz", "known: tokenizer, vocabulary"),
        ({"plan__percision": "fp32"}, "plan.percision", "did you mean 'precision'?"),
        ({"model__weights": {"sead": 1}}, "model.weights.sead", "did you mean 'seed'?"),
    ],
)
def test_an_unknown_key(write: Write, change: dict[str, Any], key: str, hint: str) -> None:
    path = write(**change)
    message = refusal(path)
    assert str(path) in message
    assert f"unknown key {key};" in message
    assert hint in message


def test_a_key_that_is_no_word(write: Write) -> None:
    path = write()
    path.write_text(path.read_text() + "3: 4\n")
    assert "unknown key 3" in refusal(path)


WRONG: dict[str, list[Any]] = {
    "tokenizer": ["bytes", 1, ["words"], None],
    "vocabulary": [1, "", ["a"], None],
    "vocabulary_size": ["many", 1, 0, -5, 2.5, True, None],
    "length": ["some", 0, -1, 1.5, True, [16]],
    "max_tokens": ["all", 0, True, 2.5],
    "embedding": ["big", 0, 1.0, False, None],
    "widths": [3, [], ["3"], [3, 0], [3, True], "3 5", None],
    "filters": [0, "x", None],
    "experts": [0, "x", None],
    "expert_hidden": [0, [6], None],
    "fully_connected": [2, [], [7, -2], [7, "2"], None],
    "labels": ["negative", [], [1, 2], None],
    "weights": [3, None, [], True, {"seed": "x"}, {"seed": -1}, {"seed": True}, {}],
    "golden": [3, [], ""],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRONG for value in WRONG[key]])
def test_a_value_of_the_wrong_kind(write: Write, key: str, value: Any) -> None:
    path = write(**{f"model__{key}": value})
    message = refusal(path)
    assert message.startswith(f"{path}: model.{key}")
    assert "must be" in message


def test_every_model_key_has_its_wrong_values() -> None:
    assert set(WRONG) == set(MODEL_KEYS)


@pytest.mark.parametrize("key", sorted(set(MODEL_KEYS) - {"tokenizer", "length", "max_tokens", "golden"}))
def test_a_missing_key(write: Write, key: str) -> None:
    message = refusal(write(**{f"model__{key}": REMOVE}))
    assert f"model.{key} must be" in message


@pytest.mark.parametrize("key", PLAN_KEYS)
@pytest.mark.parametrize("value", ["fastest", 0, -1, True, 1.5, [1], {"a": 1}])
def test_a_plan_value_of_the_wrong_kind(write: Write, key: str, value: Any) -> None:
    message = refusal(write(**{f"plan__{key}": value}))
    assert f"plan.{key} must be" in message
    assert "auto" in message


@pytest.mark.parametrize("section", ["model", "plan"])
@pytest.mark.parametrize("value", [3, "text", [1], [], False, 0])
def test_a_section_that_is_no_mapping(write: Write, section: str, value: Any) -> None:
    assert f"{section} must be a mapping of keys" in refusal(write(**{section: value}))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "words\n", "3\n"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert "the file must be a mapping of keys" in refusal(path)


def test_an_empty_plan_section_is_all_auto(write: Write) -> None:
    assert load_config(write(plan=None)).plan == PlanSpec()


def test_a_whole_plan(write: Write) -> None:
    keys = {"precision": "fp32", "convolution": "im2col", "experts": "separate", "batch": 3, "streams": 2}
    assert load_config(write(plan=keys)).plan == PlanSpec(**keys)  # type: ignore[arg-type]
    automatic = dict.fromkeys(keys, "auto")
    assert load_config(write(plan=automatic)).plan == PlanSpec()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__max_tokens": 4}, ["model.max_tokens is 4", "widest convolution of 5", "raise it to 5"]),
        (
            {"model__length": 4, "model__max_tokens": REMOVE},
            ["model.length is 4", "widest convolution of 5", "raise it to 5"],
        ),
        ({"model__length": 16}, ["model.max_tokens has no meaning", "model.length is 16", "remove it"]),
        ({"model__labels": ["a", "b", "c"]}, ["fully_connected ends in 2", "labels has 3", "must agree"]),
        ({"model__widths": [3, 5, 3]}, ["model.widths must be a list without repetitions"]),
        ({"model__labels": ["a", "a"]}, ["model.labels must be a list without repetitions"]),
    ],
)
def test_sizes_that_contradict_each_other(write: Write, changes: dict[str, Any], words: list[str]) -> None:
    path = write(**changes)
    message = refusal(path)
    assert str(path) in message
    for word in words:
        assert word in message


def test_a_fixed_length(write: Write) -> None:
    spec = load_config(write(model__length=16, model__max_tokens=REMOVE)).model
    assert (spec.length, spec.min_tokens, spec.max_tokens) == (16, 16, 16)


def test_ragged_is_the_default_and_cut_at_256(write: Write) -> None:
    spec = load_config(write(model__length=REMOVE, model__max_tokens=REMOVE)).model
    assert (spec.length, spec.max_tokens) == (None, 256)


def test_the_name_defaults_to_that_of_the_file(write: Write) -> None:
    assert load_config(write("other.yaml", name=REMOVE)).name == "other"
    assert "name must be a string" in refusal(write(name=3))


def test_yaml_that_does_not_parse(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: a\nmodel: {widths: [3, 5\n")
    message = refusal(path)
    assert f"{path}:3:1: not valid YAML" in message


@pytest.mark.parametrize(
    "content", [b"name: \xff\xfe\n", b"name: a\x00b\n", b"name: !!python/object:os.system x\n"]
)
def test_a_file_that_is_no_yaml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    message = refusal(path)
    assert str(path) in message
    assert "not valid YAML" in message


def test_no_such_file(tmp_path: Path) -> None:
    message = refusal(tmp_path / "none.yaml")
    assert f"no configuration file {tmp_path / 'none.yaml'}" in message
    assert "packaged ones: " in message
    assert "sentiment" in message


def test_no_such_packaged_name() -> None:
    assert "no packaged configuration 'sentimint'; did you mean 'sentiment'?" in refusal("sentimint")


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    assert "no configuration file" in refusal(tmp_path / "a.yaml")


def test_paths_are_relative_to_the_file_that_names_them(write: Write, tmp_path: Path) -> None:
    write("base.yaml", model__golden="g.safetensors", model__weights="w.safetensors")
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    child = folder / "child.yaml"
    child.write_text("extends: ../../base.yaml\nmodel: {golden: own.safetensors}\n")
    spec = load_config(child).model
    assert spec.vocabulary == tmp_path / "vocabulary.txt"
    assert spec.weights == tmp_path / "w.safetensors"
    assert spec.golden == folder / "own.safetensors"


def test_the_working_folder_does_not_matter(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write()
    monkeypatch.chdir(tmp_path)
    here = load_config(path.name)
    monkeypatch.chdir("/")
    assert load_config(path) == here
