"""Configurations that nobody writes by accident, and names that mean two things: one clear line for each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from config_files import Write, refusal, write_config

from accel_cli import resources
from accel_cli.model.config import find_config, load_config


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_config, tmp_path)


def test_a_bare_name_is_the_packaged_one_whatever_lies_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = resources.CONFIGS / "school.yaml"
    (tmp_path / "school").write_text("- no configuration\n")
    (tmp_path / "own.yaml").write_text("extends: school\n")
    monkeypatch.chdir(tmp_path)
    assert find_config("school") == packaged
    assert find_config(Path("school")) == packaged
    assert load_config("own.yaml").model == load_config(packaged).model
    assert find_config("./school") == tmp_path / "school"
    assert "the file must be a mapping" in refusal("./school")


def test_files_and_folders_of_other_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.yaml").write_text("extends: school\n")
    (tmp_path / "plain").write_text("extends: mine\n")  # a folder beside it
    assert find_config("mine") == find_config("mine/") == tmp_path / "mine" / "model.yaml"
    assert find_config("plain") == tmp_path / "plain"
    assert load_config("plain").model == load_config("school").model


@pytest.mark.parametrize("name", ["", "a\0b", "a\0b.yaml", "/a\0b"])
def test_names_that_no_file_has(name: str) -> None:
    assert "configuration" in refusal(name)


@pytest.mark.parametrize("key", ["vocabulary", "weights", "golden"])
def test_paths_with_nul(write: Write, key: str) -> None:
    assert f"model.{key} must be a string" in refusal(write(**{f"model__{key}": "a\0b"}))


@pytest.mark.parametrize("text", ["[\n" * 5000, "{a: " * 5000, "name: " + "[\n" * 5000 + "]" * 5000])
def test_nested_too_deeply(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    assert refusal(path) == f"{path}: not readable YAML: nested too deeply"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model__embedding", 10**22),
        ("model__vocabulary_size", 1 << 31),
        ("model__filters", (1 << 20) + 1),
        ("model__max_tokens", 10**9),
        ("model__fully_connected", [10**22, 2]),
        ("model__widths", [10**22]),
        ("model__weights", {"seed": 1 << 64}),
        ("plan__batch", (1 << 20) + 1),
        ("plan__streams", 65),
    ],
)
def test_absurd_sizes(write: Write, key: str, value: Any) -> None:
    assert "must be" in refusal(write(**{key: value}))


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_numbers_longer_than_python_prints(write: Write, number: str) -> None:
    path = write(model__filters=7)
    path.write_text(path.read_text().replace("filters: 7", f"filters: {number}"))
    message = refusal(path)
    assert str(path) in message
    assert "set_int_max_str_digits" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("text", "line"), [("name: a\nmodel: {}\nname: b\n", 3), ("model:\n  filters: 1\n  filters: 2\n", 3)]
)
def test_a_key_that_stands_twice(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    message = refusal(path)
    assert message.startswith(f"{path}:{line}:")
    assert message.endswith("stands twice; keep one")


def test_a_merged_key_may_be_overlaid(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("extends: school\nplan: {<<: {batch: 3, streams: 2}, batch: 4}\n")
    assert (load_config(path).plan.batch, load_config(path).plan.streams) == (4, 2)


def test_a_fixed_length_over_a_base_of_any_length(write: Write, tmp_path: Path) -> None:
    write("base.yaml", model__max_tokens=24)
    child = tmp_path / "child.yaml"
    child.write_text("extends: base.yaml\nmodel: {length: 16}\n")
    (tmp_path / "last.yaml").write_text("extends: child.yaml\nmodel: {filters: 4}\n")
    for name in ("child.yaml", "last.yaml"):
        spec = load_config(tmp_path / name).model
        assert (spec.length, spec.max_tokens) == (16, 16)
    child.write_text("extends: base.yaml\nmodel: {length: 16, max_tokens: 20}\n")
    assert "model.max_tokens has no meaning" in refusal(child)
    child.write_text("extends: base.yaml\nmodel: {length: ragged}\n")
    assert load_config(child).model.max_tokens == 24
