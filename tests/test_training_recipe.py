"""The training recipe: its network is accel's, its steps learn, and one command leads to files that load."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accel_cli.batches import TokenBatch
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.model.weights import assemble, load_weights

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.extras

RECIPE = Path(__file__).parent.parent / "weights" / "train"
if not RECIPE.is_dir():
    pytest.skip("the training recipe is not here", allow_module_level=True)
sys.path.insert(0, str(RECIPE))
NAMES = ("augment", "card", "export", "fit", "measure", "network", "ragged", "recipe", "train")
augment, card, export, fit, measure, network, ragged, recipe, train = map(importlib.import_module, NAMES)

SPEC = ModelSpec(
    tokenizer="words",
    vocabulary=Path("vocabulary.txt"),
    vocabulary_size=50,
    length=None,
    max_tokens=40,
    embedding=12,
    widths=(3, 5),
    filters=6,
    experts=3,
    expert_hidden=8,
    fully_connected=(7, 2),
    labels=("negative", "positive"),
    weights=None,
    seed=0,
    golden=None,
)
FIT = recipe.Fit(epochs=2, batch=16, rate=0.01, decay=0.0, averaging=0.9)
CPU = torch.device("cpu")


def random_texts(lengths: list[int], seed: int = 0) -> tuple[object, np.ndarray]:
    """Sentences of random words, labelled by whether word 2 is among them."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ids = rng.integers(3, SPEC.vocabulary_size, offsets[-1]).astype(np.int32)
    labels = np.arange(len(lengths)) % 2
    ids[offsets[:-1][labels == 1]] = 2
    return ragged.Rows(ids, offsets), labels


def fresh_network(spec: ModelSpec = SPEC) -> object:
    torch.manual_seed(0)
    return network.Network(spec).eval()


def resident(rows: object) -> object:
    return fit.Resident(rows, CPU, least=SPEC.min_tokens, most=SPEC.max_tokens)


def logits(module: object, rows: object) -> np.ndarray:
    return fit.over_all(module, resident(rows), module, budget=64).numpy()


def test_the_network_computes_what_the_reference_does():
    rows, _ = random_texts([5, 9, 30, 6, 5, 40])
    module = fresh_network()
    tensors = {name: value.numpy() for name, value in module.state_dict().items()}
    expected = forward(SPEC, assemble(SPEC, tensors), TokenBatch(rows.ids, rows.offsets.astype(np.int32)))
    found = logits(module, rows)
    np.testing.assert_allclose(found, expected["logits"], atol=1e-5)


def test_a_sentence_does_not_depend_on_its_batch():
    rows, _ = random_texts([2, 7, 38])
    module = fresh_network()
    alone = np.concatenate([logits(module, rows.take(np.array([row]))) for row in range(3)])
    np.testing.assert_allclose(logits(module, rows), alone, atol=1e-5)


def test_an_exported_network_is_read_nearly_as_it_was(tmp_path: Path):
    rows, _ = random_texts([6] * 20)
    module = fresh_network()
    path = tmp_path / "model.safetensors"
    export.export(path, SPEC, module)
    weights = load_weights(path, SPEC)
    table = module.state_dict()["embedding.weight"].numpy()
    steps = np.abs(table).max(axis=1, keepdims=True) / 127
    assert (np.abs(weights.embedding - table) <= 0.501 * steps).all()
    np.testing.assert_allclose(logits(export.read(path, SPEC), rows), logits(module, rows), atol=0.01)


def test_a_network_is_cooled():
    rows, _ = random_texts([6] * 4)
    module = fresh_network()
    before = logits(module, rows)
    export.cool(module, 2.0)
    np.testing.assert_allclose(logits(module, rows), before / 2, atol=1e-6)


def test_steps_of_training_lower_the_loss():
    rows, labels = random_texts([6] * 32)
    losses = []
    targets = torch.from_numpy(6.0 * np.eye(2)[labels])

    def report(epoch: int, steps: int, loss: float, average: object) -> None:
        losses.append(loss)

    module = fresh_network()
    average = fit.train(module, resident(rows), np.ones(32), targets, replace(FIT, epochs=20), 0, report)
    assert losses[-1] < 0.5 * losses[0]
    assert measure.accuracy(logits(average, rows), labels) > 90


def test_a_table_of_words_learns_at_its_own_rate():
    rows, labels = random_texts([6] * 32)
    targets = torch.from_numpy(np.eye(2, dtype=np.float32)[labels])
    module = fresh_network()
    before = module.embedding.weight.clone()
    slow = replace(FIT, embedding_rate=0.0)
    average = fit.train(module, resident(rows), np.ones(32), targets, slow, 0, lambda *facts: None)
    assert torch.equal(average.embedding.weight, before)
    assert not torch.equal(average.gate.weight, fresh_network().gate.weight)


def test_training_ends_with_its_time(monkeypatch: pytest.MonkeyPatch):
    """By a clock that says another second whenever it is asked."""
    rows, _ = random_texts([6] * 32)
    reports = []

    def report(*facts: object) -> None:
        reports.append(facts)

    monkeypatch.setattr(fit, "time", SimpleNamespace(monotonic=count().__next__))
    long = replace(FIT, epochs=10**6)
    fit.train(fresh_network(), resident(rows), np.ones(32), torch.zeros(32, 2), long, 0, report, seconds=20)
    assert 0 < len(reports) <= 10  # of two batches each


def test_an_epoch_holds_each_row_by_its_weight():
    weights = np.repeat([0.0, 0.5, 3.0], 1000)
    rows = fit.draw(weights, np.random.default_rng(0))
    counts = np.bincount(rows, minlength=3000).reshape(3, 1000)
    assert counts[0].max() == 0
    assert counts[1].max() == 1
    assert 400 < counts[1].sum() < 600
    assert set(counts[2]) == {3}


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    """A folder with tiny data, a tiny teacher, and a recipe for them."""
    good, bad = (b"a good meal", b"so very good"), (b"a bad meal", b"it is so very bad")
    lines = [b"1\t" + text for text in good] + [b"0\t" + text for text in bad]
    for name in ("sst2.train.tsv.gz", "sst2.dev.tsv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"\n".join(lines * 8) + b"\n"))
    (tmp_path / "imdb_sentences.unlabelled.txt.gz").write_bytes(
        gzip.compress(b"so good that I ate it all again\n" * 16)
    )
    np.savez(
        tmp_path / "words.npz", words=np.array(["good", "bad", "meal"]), vecs=np.eye(3, 4, dtype=np.float16)
    )
    (tmp_path / "model.yaml").write_text(
        "name: tiny\nmodel: {vocabulary: v, vocabulary_size: 40, embedding: 8, widths: [3, 5], filters: 8,"
        " experts: 2, expert_hidden: 8, fully_connected: [4, 2], labels: [negative, positive], weights: w}\n"
    )
    stage = {name: getattr(FIT, name) for name in FIT.__dataclass_fields__}
    kinds = [name for name in vars(augment.Augmenter) if not name.startswith("_") and name != "make"]
    values = {
        "model": "model.yaml",
        "sizes": {},
        "seed": 1,
        "vectors": ["words.npz", "teacher_vectors.npz"],
        "sets": {"sst2": {"teacher": 1, "student": 2, "base": 1, "smoothing": 0.1}},
        "unlabelled": {"student": 1, "base": 1},
        "teacher": {
            "count": 2,
            "fit": {**stage, "epochs": 20},
            "max_tokens": 20,
            "budget": 500,
            "vectors": 4,
        },
        "neighbours": 2,
        "augmentations": dict.fromkeys(kinds, 20),
        "openers": ["not"],
        "connectors": ["but"],
        "emoji": "\N{PILE OF POO}",
        "shard": 100,
        "distil": {**stage, "epochs": 10, "temperature": 2.0, "word_dropout": 0.1},
        "calibration": ["sst2"],
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(values, ensure_ascii=False), "utf-8")
    tiny_teacher(tmp_path / "teacher")
    return tmp_path


def tiny_teacher(folder: Path) -> None:
    """A random transformer whose word pieces are letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [mark + chr(letter) for letter in range(33, 127) for mark in ("", "##")]
    pieces = {piece: number for number, piece in enumerate(special + letters)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))


def test_one_command_leads_to_the_files(workshop: Path, monkeypatch: pytest.MonkeyPatch):
    out = workshop / "out"
    where = ["--data", str(workshop), "--teacher", str(workshop / "teacher"), "--out", str(out)]
    command = ["train.py", *where, "--device", "cpu", "--config", str(workshop / "recipe.yaml")]
    monkeypatch.setattr(sys, "argv", [*command, "--stages", "data,augment,teacher,label", "--member", "1"])
    train.main()
    assert {path.parent.name for path in out.glob("*/*.npz")} == {"teacher-1"}
    assert not (out / "teacher-0").exists()
    monkeypatch.setattr(sys, "argv", command)
    train.main()
    said = [np.load(out / f"teacher-{number}" / "labels-000.npz")["logits"] for number in (0, 1)]
    assert not np.array_equal(*said)
    log = json.loads((out / "student" / "log.json").read_text())
    assert log["stages"]["export"]["reference"] == log["stages"]["export"]["dev"]
    assert log["stages"]["export"]["behaviours"]["all"][1] >= 200
    assert [row["stage"] for row in log["epochs"]] == ["distil"] * 10
    assert (out / "student" / "vocabulary.txt").read_bytes().startswith(b"<unk>\n<pad>\n")
    text = card.fill(card.CARD.read_text("utf-8"), card.measured([log, log]))
    assert "| double negation | 16 |" in text
    assert text == card.fill(text, card.measured([log, log]))

    monkeypatch.setattr(sys, "argv", [*command, "--name", "other", "--set", "sizes.filters=4"])
    shared = {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    train.main()
    assert shared == {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}, "they are not redone"
    assert (out / "other" / "model.safetensors").exists()
