"""The texts of the training recipe: rows, the lexicon, measures and the recipes themselves."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from accel_cli.text.tokenizer import tokens

pytest.importorskip("torch")
pytestmark = pytest.mark.extras

RECIPE = Path(__file__).parent.parent / "weights" / "train"
if not RECIPE.is_dir():
    pytest.skip("the training recipe is not here", allow_module_level=True)
sys.path.insert(0, str(RECIPE))
NAMES = ("augment", "lexicon", "measure", "ragged", "recipe", "walks")
augment, lexicon, measure, ragged, recipe, walks = map(importlib.import_module, NAMES)


def test_rows_are_cut_joined_and_replaced():
    rows = ragged.from_lists([[1, 2, 3], [], [4]])
    assert [row.tolist() for row in (rows[0], rows[1], rows[2])] == [[1, 2, 3], [], [4]]
    both = ragged.beside([rows, ragged.from_lists([[7], [8], [9]])])
    assert [both[row].tolist() for row in range(3)] == [[1, 2, 3, 7], [8], [4, 9]]
    kept = rows.filter(np.array([True, False, True, False]))
    assert [kept[row].tolist() for row in range(3)] == [[1, 3], [], []]
    table = ragged.from_lists([[0], [10], [20, 21], [], [40]])
    longer = rows.expand(table)
    assert [longer[row].tolist() for row in range(3)] == [[10, 20, 21], [], [40]]
    assert rows.cut(2)[0].tolist() == [1, 2]


def test_a_lexicon_reads_what_the_tokenizer_does(tmp_path: Path):
    words = lexicon.Lexicon()
    lines = [b"It isn't bad", "so good \N{SMILING FACE WITH HEART-SHAPED EYES}".encode(), b"", b"isnt it"]
    rows = words.rows(lines)
    names = list(words)
    assert [[names[number] for number in rows[row]] for row in range(4)] == [tokens(line) for line in lines]
    words.save(tmp_path / "lexicon.bin")
    assert lexicon.Lexicon.load(tmp_path / "lexicon.bin") == words


def test_the_teacher_reads_emoji_and_contractions_in_words():
    assert lexicon.speak("\N{PILE OF POO}".encode()) == "pile of poo"
    assert lexicon.speak(b"dont") == "don't"
    assert lexicon.speak(b"film") == "film"


def test_a_walk_changes_texts_only_behind_the_same_two_words():
    texts = [[1, 2, 3, 4], [], [5, 2, 3, 6], [7, 2, 8], [1]]
    made = walks.Crossings(ragged.from_lists(texts)).walk(
        np.repeat([0, 2, 3, 4], 50), np.random.default_rng(0)
    )
    found = {tuple(made[row].tolist()) for row in range(len(made))}
    assert found == {(1, 2, 3, 4), (1, 2, 3, 6), (5, 2, 3, 6), (5, 2, 3, 4), (7, 2, 8), (1,)}


def test_a_walk_ends():
    texts = ragged.from_lists([[1] * 500])
    made = walks.Crossings(texts).walk(np.zeros(20, int), np.random.default_rng(0))
    assert made.lengths.tolist() == [walks.LONGEST] * 20


def test_the_distance_to_the_teacher():
    logits = np.array([[0.0, 2.0], [1.0, 0.0]])
    assert measure.distance(logits, logits) == 0
    assert 0 < measure.distance(logits, 2 * logits) < measure.distance(-logits, 2 * logits)


def test_calibration():
    labels = np.array([0, 1] * 200)
    sure = np.where(labels[:, None] == [0, 1], 5.0, 0.0)
    sure[::4] = sure[::4, ::-1]  # a quarter is wrong, and all are sure
    assert measure.calibration_error(sure, labels) > 0.2
    assert measure.calibration_error(sure / measure.temperature(sure[:200], labels[:200]), labels) < 0.07


def test_behaviours_are_a_good_mixture():
    kinds, labels, texts = measure.read_behaviours()
    assert len(set(texts)) == len(texts) >= 200
    assert 0.4 < labels.mean() < 0.6
    assert min(kinds.count(kind) for kind in kinds) >= 10


@pytest.mark.parametrize("name", ["sentiment", "quick"])
def test_recipes_are_read(name: str):
    values = recipe.load_recipe(RECIPE / f"{name}.yaml", ["distil.epochs=1", "sizes.filters=8"])
    assert (values.distil.epochs, values.spec.filters) == (1, 8)
    assert values.spec.experts * values.spec.fully_connected[0] <= 512
    assert all(isinstance(text, str) for text in values.openers + values.connectors)
    assert set(values.augmentations) <= set(dir(augment.Augmenter))
    json.dumps(values.plain())
