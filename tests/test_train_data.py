"""What training needs no PyTorch for: rows, words, calibration, folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.errors import ConfigError, InputError
from accel_cli.model.config import find_config
from accel_cli.text.labelled import Labelled
from accel_cli.train.base import extend, load_base
from accel_cli.train.calibration import loss_of, temperature
from accel_cli.train.examples import Examples, read_examples, split
from accel_cli.train.folder import check_free, write_folder


def examples(texts: list[bytes], labels: list[int]) -> Examples:
    return Examples(texts, np.array(labels, dtype=np.int64))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), min_size=1, max_size=80), st.integers(0, 3))
def test_a_split_holds_out_some_of_every_label_and_no_text_twice(
    drawn: list[tuple[int, int]], seed: int
) -> None:
    data = examples([b"%d" % text for text, _ in drawn], [label for _, label in drawn])
    try:
        learned, held = split(data, seed)
    except InputError:  # every label has but one text
        return
    assert sorted([*learned.tolist(), *held.tolist()]) == list(range(len(data)))
    texts = [{data.texts[row] for row in part.tolist()} for part in (learned, held)]
    assert not texts[0] & texts[1]
    assert len(held)
    assert len(learned)


def test_a_split_is_stratified() -> None:
    data = examples([b"%d" % n for n in range(4000)], [int(n % 10 == 0) for n in range(4000)])
    _, held = split(data, 1)
    assert len(held) == 400
    assert data.labels[held].sum() == 40


def test_labels_are_in_order_of_number_or_name(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"10\ta\n9\tb\nx\tc\n")
    assert read_examples([Labelled(str(tmp_path / "a.tsv"))])[1] == ["9", "10", "x"]


def test_a_label_of_dev_that_was_never_learned(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"z\ta\n")
    with pytest.raises(InputError, match="'z' does not occur among the rows to learn from"):
        read_examples([Labelled(str(tmp_path / "a.tsv"))], ["x", "y"])


def test_words_of_the_base_first_then_new_ones_by_frequency() -> None:
    texts = [b"new new old rare", b"newer new old newer"]
    assert extend([b"<unk>", b"<pad>", b"old"], texts, 2, 5) == [b"<unk>", b"<pad>", b"old", b"new", b"newer"]
    assert extend([], texts, 2, 4) == [b"<unk>", b"<pad>", b"new", b"newer"]
    assert extend([b"<unk>", b"<pad>", b"old"], texts, 1, 3) == [b"<unk>", b"<pad>", b"old"]


def test_a_base_of_fixed_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose a base of `length: ragged`"):
        load_base("school")


def test_the_temperature_undoes_a_factor() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 2, (4000, 3))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(3, p=row) for row in chances])
    found = temperature(3 * logits, labels)
    assert found == pytest.approx(3, rel=0.1)
    assert loss_of(logits * 3 / found, labels) <= loss_of(logits * 3, labels)


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise InputError("no")

    with pytest.raises(InputError):
        write_folder(tmp_path / "m", fail)
    assert list(tmp_path.iterdir()) == []


def test_only_models_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(Exception, match=r"is no model \(it has no model\.yaml\), so it is not replaced"):
        check_free(tmp_path, overwrite=True)


def test_a_folder_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "sentiment"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.yaml").write_text("name: x\n")
    assert find_config("mine") == find_config("mine/") == find_config(tmp_path / "mine")
    assert find_config("mine") == tmp_path / "mine" / "model.yaml"
    assert find_config("sentiment").parent.name == "configs"  # packaged names stay what they are
    assert find_config("./sentiment/model.yaml") == tmp_path / "sentiment" / "model.yaml"
