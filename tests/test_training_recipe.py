"""The training recipe: its network is accel's, its steps learn, and one command leads to files that load."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accel_cli.batches import TokenBatch
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.model.weights import assemble, load_weights
from accel_cli.text.vocabulary import PAD

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.extras

RECIPE = Path(__file__).parent.parent / "weights" / "train"
if not RECIPE.is_dir():
    pytest.skip("the training recipe is not here", allow_module_level=True)
sys.path.insert(0, str(RECIPE))
data, export, fit, network, recipe, train = map(
    importlib.import_module, ("data", "export", "fit", "network", "recipe", "train")
)

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
FIT = recipe.Fit(
    epochs=2,
    batch=16,
    rate=0.01,
    decay=0.0,
    averaging=0.9,
    word_dropout=0.0,
    embedding_dropout=0.0,
    feature_dropout=0.0,
)


def random_texts(lengths: list[int], seed: int = 0) -> object:
    """Sentences of random words, labelled by whether word 2 is among them."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ids = rng.integers(2, SPEC.vocabulary_size, offsets[-1]).astype(np.int32)
    labels = np.arange(len(lengths)) % 2
    for row, label in enumerate(labels):
        words = ids[offsets[row] : offsets[row + 1]]
        words[words == 2] = 3
        words[0] = 2 if label else words[0]
    return data.Texts(ids, offsets, labels.astype(np.int8), np.zeros(len(lengths), np.int8))


def fresh_network(spec: ModelSpec = SPEC) -> object:
    torch.manual_seed(0)
    return network.Network(spec).eval()


def resident(texts: object) -> object:
    return fit.Resident(texts, torch.device("cpu"))


def test_the_network_computes_what_the_reference_does():
    texts = random_texts([5, 9, 30, 6, 5, 40])
    module = fresh_network()
    tensors = {name: value.numpy() for name, value in module.state_dict().items()}
    batch = TokenBatch(texts.ids, texts.offsets.astype(np.int32))
    expected = forward(SPEC, assemble(SPEC, tensors), batch)["logits"]
    with torch.inference_mode():
        logits = module.double()(*resident(texts).batch(np.arange(len(texts)))).numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-12)


def test_a_sentence_does_not_depend_on_its_batch():
    texts = resident(random_texts([5, 7, 38]))
    module = fresh_network().double()
    with torch.inference_mode():
        together = module(*texts.batch(np.arange(3)))
        alone = torch.cat([module(*texts.batch(np.array([row]))) for row in range(3)])
    torch.testing.assert_close(together, alone, atol=1e-12, rtol=0)


def test_an_exported_network_is_read_as_it_was(tmp_path: Path):
    texts = random_texts([6] * 20)
    module = fresh_network()
    path = tmp_path / "model.safetensors"
    export.export(path, SPEC, module)
    state = module.state_dict()
    weights = load_weights(path, SPEC)
    np.testing.assert_array_equal(weights.gate.weight, state["gate.weight"].numpy())
    np.testing.assert_array_equal(weights.convolutions[1].bias, state["convolution.5.bias"].numpy())
    np.testing.assert_array_equal(weights.embedding, state["embedding.weight"].half().float().numpy())
    own = fit.probabilities(module, resident(texts)).argmax(1).numpy()
    assert export.reference_accuracy(path, SPEC, texts) == np.mean(own == texts.labels)


def test_steps_of_training_lower_the_loss():
    texts = random_texts([6] * 32)
    losses = []
    targets = torch.eye(2)[torch.from_numpy(texts.labels).long()]

    def report(epoch: int, steps: int, loss: float, average: object) -> None:
        losses.append(loss)

    module = fresh_network()
    average = fit.train(module, resident(texts), np.ones(32), targets, replace(FIT, epochs=20), 0, report)
    assert losses[-1] < 0.5 * losses[0]
    right = fit.probabilities(average, resident(texts)).argmax(1).numpy() == texts.labels
    assert right.mean() > 0.9


def test_training_ends_with_its_time():
    texts = random_texts([6] * 32)
    reports = []
    module = fresh_network()
    fit.train(
        module,
        resident(texts),
        np.ones(32),
        torch.full((32, 2), 0.5),
        replace(FIT, epochs=10**6),
        0,
        lambda *facts: reports.append(facts),
        seconds=0.2,
    )
    assert 0 < len(reports) < 10**6


def test_an_epoch_holds_each_row_by_its_weight():
    weights = np.repeat([0.0, 0.5, 3.0], 1000)
    rows = fit.draw(weights, np.random.default_rng(0))
    counts = np.bincount(rows, minlength=3000).reshape(3, 1000)
    assert counts[0].max() == 0
    assert counts[1].max() == 1
    assert 400 < counts[1].sum() < 600
    assert set(counts[2]) == {3}


@pytest.mark.parametrize(
    ("treebank", "typed"),
    [
        (b"I do n't mind , it 's fine", b"I dont mind , its fine"),
        (b"we can't and DON'T", b"we cant and DONT"),
        (b"a `` fine '' meal", b'a " fine " meal'),
        (b"the dogs' house at five o'clock", b"the dogs' house at five o'clock"),
    ],
)
def test_text_is_rewritten_as_people_type_it(treebank: bytes, typed: bytes):
    assert data.rewrite(treebank) == typed


def test_spans_are_parts_of_sentences():
    texts = random_texts([5, 20, 33])
    spans = data.cut_spans(texts, 50, SPEC.widest, 1, np.random.default_rng(0))
    whole = texts.ids.tobytes()
    assert (spans.lengths >= SPEC.widest).all()
    assert (spans.labels == data.NO_LABEL).all()
    for row in range(len(spans)):
        ids = spans.ids[spans.offsets[row] : spans.offsets[row + 1]]
        assert ids[ids != PAD].tobytes() in whole


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    """A folder with tiny data and a recipe for them."""
    good, bad = (b"a good meal", b"so very good"), (b"a bad meal", b"so very bad")
    lines = [b"1\t" + text for text in good] + [b"0\t" + text for text in bad]
    for name in ("sst2.train.tsv.gz", "sst2.dev.tsv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"\n".join(lines * 8) + b"\n"))
    (tmp_path / "imdb_sentences.unlabelled.txt.gz").write_bytes(
        gzip.compress(b"so good that I ate it all again\n" * 16)
    )
    np.savez(tmp_path / "words.npz", words=np.array(["good", "bad"]), vecs=np.eye(2, 4, dtype=np.float16))
    (tmp_path / "model.yaml").write_text(
        "name: tiny\nmodel: {vocabulary: v, vocabulary_size: 10, embedding: 8, widths: [3, 5], filters: 8,"
        " experts: 2, expert_hidden: 8, fully_connected: [4, 2], labels: [negative, positive], weights: w}\n"
    )
    stage = {name: getattr(FIT, name) for name in FIT.__dataclass_fields__}
    values = {
        "model": "model.yaml",
        "seed": 1,
        "vectors": ["words.npz"],
        "sets": {"sst2": {"weight": 2, "smoothing": 0.1, "trust": 0.5}},
        "unlabelled": {"weight": 1},
        "spans": {"weight": 1, "rows": 8},
        "ensemble": {**stage, "members": 2, "epochs": 10},
        "distil": {**stage, "epochs": 10},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(values))
    return tmp_path


def test_one_command_leads_to_the_files(workshop: Path, monkeypatch: pytest.MonkeyPatch):
    out = workshop / "out"
    command = ["train.py", "--data", str(workshop), "--out", str(out), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", [*command, "--config", str(workshop / "recipe.yaml")])
    train.main()
    log = json.loads((out / "log.json").read_text())
    assert log["stages"]["distil"]["exported"] == {"sst2": 100.0}
    assert [row["member"] for row in log["epochs"] if row["epoch"] == 1] == [0, 1, 2]
    assert (out / "vocabulary.txt").read_bytes().startswith(b"<unk>\n<pad>\n")

    train.main()
    again = json.loads((out / "log.json").read_text())
    assert [row["member"] for row in again["epochs"] if row["epoch"] == 1] == [0, 1, 2, 2], (
        "members are not redone"
    )
