"""`accel train`, end to end as a process, on rows made here."""

from __future__ import annotations

import itertools
import json
import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import Accel

from accel_cli.model.config import load_config
from accel_cli.model.weights import load_tensors
from accel_cli.train.base import load_base

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
def test_it_ends_early_where_nothing_is_gained(
    accel_here: Accel, topics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All held-out rows are right from the first epoch on, and less and less sure."""
    pytest.importorskip("torch")
    from accel_cli.train import fit

    epochs = itertools.count(1)
    monkeypatch.setattr(
        fit._Training, "judge", lambda self, held: np.eye(len(TOPICS))[held.labels] / next(epochs)
    )
    done = accel_here(*quick("--input", topics, "--output", tmp_path / "m", "--epochs", "10"))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "m" / "report.json").read_text("utf-8"))
    assert [epoch["best"] for epoch in report["epochs"]] == [True] + [False] * 5  # half the epochs in vain


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
