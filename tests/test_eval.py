"""`accel eval`: right and wrong labels, every error, what is shown, bounded memory."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from conftest import Accel

from accel_cli.classifier import Classifier
from accel_cli.commands import cli
from accel_cli.errors import AccelError, InputError, UsageError
from accel_cli.evaluation import Tally, evaluate
from accel_cli.model.config import Config
from accel_cli.text.labelled import Labelled

TEXTS = [b"a good film", b"a bad film", b"not good", b"", b"the film, the film", b"nothing known here"]


@pytest.fixture
def evaluated(tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict]:
    """`accel eval` within this process: its JSON, or the AccelError that `accel` would show."""
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))

    def call(*arguments: str | Path) -> dict:
        report = tmp_path / "report.json"
        cli.main(["eval", *map(str, arguments), "--json", str(report), "--overwrite"], standalone_mode=False)
        return json.loads(report.read_text("utf-8"))

    return call


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def plain(labels: list[str]) -> bytes:
    return b"".join(b"%s\t%s\n" % (label.encode(), text) for label, text in zip(labels, TEXTS, strict=True))


@pytest.fixture(scope="module")
def predicted(tiny: Config) -> list[str]:
    with Classifier(tiny, "cpu") as classifier:
        return classifier.predict(TEXTS).labels.tolist()


@pytest.mark.parametrize("numbers", [False, True])
def test_right_labels_give_an_accuracy_of_one(
    evaluated: Callable[..., dict], tmp_path: Path, predicted: list[str], tiny: Config, numbers: bool
) -> None:
    labels = [str(tiny.model.labels.index(label)) for label in predicted] if numbers else predicted
    found = evaluated("--input", written(tmp_path / "a.tsv", plain(labels)))
    assert found["rows"][0]["accuracy"] == 1.0
    assert found["rows"][0]["n"] == len(TEXTS)
    assert sum(sum(row) for row in found["confusion"]) == len(TEXTS)
    assert {"machine", "versions", "commit", "date", "plan", "config", "inputs"} <= found.keys()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a.tsv",
            b"negative\ta\nwrong\tb\n",
            "a.tsv:2: unknown label 'wrong'; the model has negative, positive",
        ),
        ("a.tsv", b"sentence\tsentiment\n", "a.tsv:1: unknown label 'sentence'; if line 1 is a header"),
        ("a.tsv", b"0\ta\nno tab\n", "a.tsv:2: no tab between a label and a text"),
        ("a.tsv", b"0\ta\n  \tb\n", "a.tsv:2: the label is empty"),
        ("a.tsv", b"2\ta\n", "unknown label '2'"),
        ("a.tsv", b"__label__0 __label__1 a\n", "a.tsv:1: several labels"),
        ("a.tsv", b"label\tsentence\n0\ta\n", "no column 'text'; its columns: label, sentence"),
        ("a.csv", b"text,stars\na,0\n", "no column 'label'; its columns: text, stars; name one with --label"),
        ("a.csv", b"text,label\na,0\nb\n", "a.csv:3: the record has 1 fields, the header 2"),
        ("a.csv", b'text,label\n"a,0\n', "a.csv:2: not valid csv"),
        ("a.jsonl", b'{"text": "a", "label": 0}\n{"text"\n', "a.jsonl:2: not valid JSON"),
        ("a.jsonl", b"[1]\n", "a.jsonl:1: expected a JSON object, got list"),
        ("a.jsonl", b'{"text": "a"}\n', "a.jsonl:1: no key 'label'; its keys: text"),
        ("a.jsonl", b'{"text": 1, "label": 0}\n', "a.jsonl:1: 'text' is int, not a string"),
        ("a.jsonl", b'{"text": "a", "label": true}\n', "a.jsonl:1: 'label' is bool"),
        ("a.jsonl", b"[" * 200_000 + b"\n", "a.jsonl:1: nested too deeply"),
        ("a.jsonl", b'{"text": "' + b"a" * (1 << 20) + b'", "label": 0}', "line is longer than 1 MiB"),
        ("a.tsv", b"", "no labelled rows in"),
        ("a.csv", b"text,label\n", "no labelled rows in"),
    ],
)
def test_errors_name_the_line(
    evaluated: Callable[..., dict], tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    with pytest.raises(InputError) as failure:
        evaluated("--input", written(tmp_path / name, data))
    assert message in str(failure.value)


def test_columns_have_no_meaning_for_plain_lines(evaluated: Callable[..., dict], tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b"0\ta\n")
    with pytest.raises(UsageError, match="have no meaning"):
        evaluated("--input", path, "--input-format", "plain", "--column", "text")


def test_a_bad_accuracy_fails_only_when_asked(
    evaluated: Callable[..., dict], tmp_path: Path, predicted: list[str]
) -> None:
    wrong = ["positive" if label == "negative" else "negative" for label in predicted]
    path = written(tmp_path / "a.tsv", plain(wrong))
    assert evaluated("--input", path)["rows"][0]["accuracy"] == 0.0
    with pytest.raises(AccelError, match=r"accuracy is 0\.0000, under --min-accuracy 0\.5"):
        evaluated("--input", path, "--min-accuracy", "0.5")
    with pytest.raises(click.BadParameter):
        evaluated("--input", path, "--min-accuracy", "90")


def test_stdin_and_what_is_printed(accel: Accel, predicted: list[str]) -> None:
    wrong = ["positive" if label == "negative" else "negative" for label in predicted[:1]]
    done = accel("eval", stdin=plain([*wrong, *predicted[1:]]), environment={"ACCEL_WORST": "3"})
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert "rows 6, accuracy 0.8333" in out
    assert "expected calibration error" in out
    assert "stdin:1" in out
    assert "a good film" in out
    assert b"device=cpu" in done.stderr


def test_many_labels_show_their_frequent_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    from accel_cli.commands.eval import _show

    found = Tally([f"label{number}" for number in range(20)])
    values = np.eye(20, dtype=np.float32)[[3, 3, 5]]
    found.add(np.array([4, 4, 5]), values)
    _show(found)
    out = capsys.readouterr().out
    assert "most frequent mistakes" in out
    assert out.split("most frequent mistakes")[1].split("expected")[0].split()[-3:] == [
        "label4",
        "label3",
        "2",
    ]


def test_memory_does_not_grow_with_the_rows(
    tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accel_cli.text.labelled._LINES", 64)

    def peak(rows: int) -> int:
        path = written(tmp_path / f"{rows}.tsv", b"positive\ta good film %s\n" % (b"x" * 2000) * rows)
        tracemalloc.start()
        evaluate(classifier, [Labelled(str(path))], worst=10)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    with Classifier.load(tiny_path, device="cpu", batch=64, streams=2) as classifier:
        peak(1)  # what a first run keeps, whatever the rows
        assert peak(5000) < peak(1000) + (4 << 20)  # of 10 MB and 2 MB


def test_texts_are_shown_on_one_line_and_cut() -> None:
    from accel_cli.commands.eval import _shown

    assert _shown("a\tb\x1b[31m\nc") == "a b [31m c"
    assert len(_shown("x" * 500)) == 100
    assert _shown("short") == "short"


def test_the_report_may_go_to_stdout(accel_here: Accel, predicted: list[str]) -> None:
    done = accel_here("eval", "--json", "-", stdin=plain(predicted))
    assert json.load(io.BytesIO(done.stdout))["rows"][0]["accuracy"] == 1.0


def test_a_number_too_long_to_read(evaluated: Callable[..., dict], tmp_path: Path) -> None:
    path = written(tmp_path / "long.jsonl", b'{"text": "good", "label": "1", "n": ' + b"9" * 5000 + b"}\n")
    with pytest.raises(InputError, match=r"long.jsonl:1: a number too long to read"):
        evaluated("--input", path)
