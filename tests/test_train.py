"""`accel train`, end to end as a process, on rows made here; and its parts that need no PyTorch."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import Accel
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.batches import TokenBatch
from accel_cli.errors import ConfigError, InputError
from accel_cli.model.config import find_config, load_config
from accel_cli.model.weights import load_tensors
from accel_cli.text.labelled import Labelled
from accel_cli.train.base import extend, load_base
from accel_cli.train.calibration import loss_of, temperature
from accel_cli.train.examples import Examples, read_examples, split
from accel_cli.train.folder import check_free, write_folder

extras = [
    pytest.mark.extras,
    pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed"),
]

TOPICS = {
    "food": ["soup", "bread", "cheese", "apple", "dinner", "oven", "spoon", "recipe", "salt", "butter"],
    "sport": ["goal", "match", "team", "runner", "score", "league", "coach", "ball", "race", "medal"],
    "weather": ["rain", "cloud", "storm", "sunny", "wind", "frost", "thunder", "snow", "fog", "breeze"],
}
FILLER = ["the", "a", "of", "and", "there", "was", "some", "today", "again", "with", "very", "much", "over"]


def rows(count: int, seed: int) -> bytes:
    """Sentences of filler with two words of their label's topic."""
    chance = random.Random(seed)
    lines = []
    for number in range(count):
        label = list(TOPICS)[number % 3]
        words = chance.choices(FILLER, k=chance.randint(3, 9)) + chance.sample(TOPICS[label], 2)
        chance.shuffle(words)
        lines.append(f"{label}\t{' '.join(words)} {number}\n")
    return "".join(lines).encode()


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("topics") / "train.tsv"
    path.write_bytes(rows(420, 1))
    return path


def quick(*more: str | Path) -> list[str | Path]:
    return ["train", "--device", "cpu", "--base", "none", "--filters", "16", *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained") / "my-model"


class TestWholeProcess:
    pytestmark = extras

    def test_from_rows_to_labels(self, accel: Accel, topics: Path, folder: Path, tmp_path: Path) -> None:
        done = accel(*quick("--input", topics, "--output", folder))
        assert done.returncode == 0, done.stderr
        assert b"accel: epoch 1: loss " in done.stderr
        assert b"\r" not in done.stderr  # no bar without a terminal
        report = json.loads((folder / "report.json").read_text("utf-8"))
        assert report["rows"][0]["accuracy"] > 0.9
        assert report["rows"][0]["n"] == sum(map(sum, report["confusion"])) == 84
        assert b"network 2 of 2, from all 420 rows" in done.stderr
        assert {"machine", "versions", "commit", "date", "seconds", "labels", "bins"} <= report.keys()
        assert [figure["label"] for figure in report["labels"]] == list(TOPICS)

        fresh = tmp_path / "fresh.tsv"
        fresh.write_bytes(rows(300, 2))
        judged = accel("eval", "--input", fresh, "--config", folder, "--min-accuracy", "0.9")
        assert judged.returncode == 0, judged.stdout + judged.stderr

        ran = accel("run", "--config", f"{folder}/", stdin=b"soup and bread\nthe league match\n")
        assert ran.returncode == 0, ran.stderr
        assert [line.split("\t")[0] for line in ran.stdout.decode().splitlines()] == ["food", "sport"]
        valid = accel("validate", "--config", folder / "model.yaml", "--device", "cpu")
        assert valid.returncode == 0, valid.stdout.decode()

        moved = folder.rename(folder.with_name("moved"))
        assert accel("run", "--config", moved, stdin=b"rain\n").stdout.startswith(b"weather\t")
        moved.rename(folder)

    def test_a_folder_is_replaced_only_when_asked(self, accel: Accel, topics: Path, folder: Path) -> None:
        before = (folder / "model.safetensors").read_bytes()
        line = quick("--input", topics, "--output", folder, "--epochs", "1")
        refused = accel(*line)
        assert refused.returncode == 1
        assert b"exists already; say --overwrite" in refused.stderr
        assert (folder / "model.safetensors").read_bytes() == before
        assert accel(*line, "--overwrite").returncode == 0
        assert (folder / "model.safetensors").read_bytes() != before
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("base", ["none", "sentiment"])
@pytest.mark.extras
def test_a_seed_decides_the_model(accel: Accel, topics: Path, tmp_path: Path, base: str) -> None:
    pytest.importorskip("torch")
    line = ["train", "--device", "cpu", "--base", base, "--input", topics, "--epochs", "4", "--output"]
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        done = accel(*line, tmp_path / name, "--seed", seed)
        assert done.returncode == 0, done.stderr
    a, b, c = (load_tensors(tmp_path / name / "model.safetensors")[1]["sha256"] for name in "abc")
    assert a == b
    assert a != c
    report = json.loads((tmp_path / "a" / "report.json").read_text("utf-8"))
    assert report["rows"][0]["accuracy"] > 0.9
    valid = accel("validate", "--config", tmp_path / "a", "--device", "cpu")
    assert valid.returncode == 0, valid.stdout.decode()


@pytest.mark.extras
def test_what_stays_of_a_base(accel: Accel, topics: Path, tmp_path: Path) -> None:
    """The base's words keep their numbers, its filters give its features."""
    pytest.importorskip("torch")
    from accel_cli.model.reference import forward
    from accel_cli.model.weights import load_weights
    from accel_cli.text.tokenizer import Tokenizer

    done = accel("train", "--input", topics, "--epochs", "1", "--device", "cpu", "--output", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    base = load_base("sentiment")
    spec = load_config(tmp_path / "m").model
    assert base is not None
    words = (tmp_path / "m" / "vocabulary.txt").read_bytes().split(b"\n")
    assert words[: len(base.words)] == base.words
    numbered = {word: number for number, word in enumerate(base.words)}
    batch = Tokenizer(numbered, base.spec.min_tokens, 256).encode([b"a good film", b"not bad at all"]).batch
    weights = load_weights(spec.weights, spec)  # type: ignore[arg-type]
    new = forward(spec, weights, batch)["features"].reshape(2, len(spec.widths), -1)
    old = base.features(batch).astype(np.float64)
    kept = [spec.widths.index(width) for width in base.spec.widths]
    assert np.allclose(new[:, kept], old, rtol=2e-2, atol=1e-2)  # in float16 on the way


@pytest.mark.extras
def test_it_ends_early_on_rows_that_cannot_be_learned(accel: Accel, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    chance = random.Random(3)
    lines = [f"{chance.randint(0, 1)}\t{' '.join(chance.choices(FILLER, k=8))} {n}\n" for n in range(400)]
    path = tmp_path / "noise.tsv"
    path.write_text("".join(lines))
    done = accel(*quick("--input", path, "--output", tmp_path / "m", "--epochs", "40"))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "m" / "report.json").read_text("utf-8"))
    assert len(report["epochs"]) < 40
    best = [epoch for epoch in report["epochs"] if epoch["best"]]
    assert best[-1]["held_accuracy"] == max(epoch["held_accuracy"] for epoch in report["epochs"])


@pytest.mark.extras
def test_merged_networks_give_the_mean_of_their_logits() -> None:
    pytest.importorskip("torch")
    from accel_cli.model.reference import forward
    from accel_cli.model.weights import assemble
    from accel_cli.train.merge import merge
    from accel_cli.train.network import Shape, initial, logits
    from accel_cli.train.rows import Resident, Rows

    base = load_base("sentiment")
    assert base is not None
    widths, filters = base.spec.widths, base.spec.filters
    shape = Shape(len(base.words) + 3, 4, (1, 2), 5, widths, filters, 3)
    rng = np.random.default_rng(1)
    batch = TokenBatch(
        rng.integers(2, shape.words, 40).astype(np.int32), np.array([0, 10, 22, 40], dtype=np.int32)
    )
    scales = rng.uniform(1, 2, (len(widths), filters)).astype(np.float32)
    features = (base.features(batch) * scales).astype(np.float16)
    rows = Rows(batch, features, np.zeros(3, dtype=np.int64))
    resident = Resident(rows, 3, max(widths), "cpu").whole(np.arange(3))
    members, expected = [], []
    for _ in range(2):
        embedding = rng.normal(size=(shape.words, 4)).astype(np.float32)
        parameters = initial(shape, embedding, rng.uniform(0.1, 1, 3).astype(np.float32))
        expected.append(logits(shape, parameters, resident).numpy())
        members.append({name: value.numpy() for name, value in parameters.items()})
    spec = replace(
        base.spec,
        vocabulary_size=shape.words,
        embedding=base.spec.embedding + 8,
        widths=shape.all_widths,
        experts=1,
        expert_hidden=3,
        fully_connected=(3,),
        labels=("a", "b", "c"),
    )
    merged = assemble(spec, merge(shape, members, filters, base, scales))
    found = forward(spec, merged, batch)["logits"]
    np.testing.assert_allclose(found, np.mean(expected, axis=0), atol=2e-3)  # float16 on the way


@pytest.mark.extras
def test_a_mixture_has_tokens_and_labels_of_both_rows() -> None:
    pytest.importorskip("torch")
    from accel_cli.train.rows import Resident, Rows

    ids = np.array([2, 3, 4, 5, 12, 13], dtype=np.int32)
    rows = Rows(
        TokenBatch(ids, np.array([0, 4, 6], dtype=np.int32)),
        np.zeros((2, 0, 0), dtype=np.float16),
        np.array([0, 1]),
    )
    resident = Resident(rows, 2, 5, "cpu")
    whole = resident.whole(np.array([0, 1]))
    assert whole.ids.tolist() == [[2, 3, 4, 5, 1], [12, 13, 1, 1, 1]]
    assert whole.lengths.tolist() == [5, 5]
    assert whole.labels.tolist() == [[1, 0], [0, 1]]
    mixed = resident.mixed(np.array([0, 1]), np.array([1, 0]), np.array([0.5, 0.5], dtype=np.float32))
    assert mixed.ids.tolist() == [[2, 3, 13, 1, 1], [12, 4, 5, 1, 1]]
    np.testing.assert_allclose(mixed.labels.numpy(), [[2 / 3, 1 / 3], [2 / 3, 1 / 3]], atol=1e-6)


@pytest.mark.extras
def test_a_rare_word_moves_less_than_a_frequent_one() -> None:
    torch = pytest.importorskip("torch")
    from accel_cli.train.steps import Steps

    parameters = {"embedding.weight": torch.zeros(3, 1, requires_grad=True)}
    parameters["head.weight"] = torch.zeros(1, requires_grad=True)
    steps = Steps(parameters)
    for number in range(50):
        ids = torch.tensor([0, 1 if number == 20 else 0])
        loss = parameters["embedding.weight"][ids].sum() + parameters["head.weight"].sum()
        steps.take(loss, tokens=2, rate=0.01)
    often, once, never = parameters["embedding.weight"].detach().flatten().tolist()
    assert often < 30 * once < 0
    assert never == 0


@pytest.mark.extras
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no labelled rows in"),
        (b"a\tone\na\ttwo\n", "has the label 'a' alone; a classifier needs two"),
        (b"a\tone\nb\ttwo\n", "too few rows to hold some out"),
        (b"a\tone\nno tab\n", ":2: no tab between"),
    ],
)
def test_errors(accel: Accel, tmp_path: Path, data: bytes, message: str) -> None:
    pytest.importorskip("torch")
    (tmp_path / "a.tsv").write_bytes(data)
    done = accel(*quick("--input", tmp_path / "a.tsv", "--output", tmp_path / "m"))
    assert done.returncode == 1
    assert message in done.stderr.decode()
    assert not (tmp_path / "m").exists()


@pytest.mark.extras
def test_filters_belong_to_the_base(accel: Accel, topics: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = accel("train", "--input", topics, "--output", tmp_path / "m", "--filters", "7")
    assert done.returncode == 2
    assert b"--filters 7 does not go with --base sentiment" in done.stderr


def test_without_pytorch_it_says_what_to_install(accel: Accel, topics: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch')\n")
    path = f"{tmp_path}:{Path(__file__).resolve().parent.parent}"
    done = accel(*quick("--input", topics, "--output", tmp_path / "m"), environment={"PYTHONPATH": path})
    assert done.returncode == 1
    assert b'pip install ".[train]"' in done.stderr


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
