"""`accel eval`: the figures by hand, every way labels come in, every error, bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from conftest import Accel
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.classifier import Classifier
from accel_cli.commands import cli
from accel_cli.errors import AccelError, InputError, UsageError
from accel_cli.evaluation import BINS, Tally, evaluate, known_labels
from accel_cli.model.config import Config
from accel_cli.text.labelled import Labelled, Row

LABELS = ("no", "yes", "maybe")
TEXTS = [b"a good film", b"a bad film", b"not good", b"", b"the film, the film", b"nothing known here"]


def scores(*rows: tuple[float, float, float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


def tally() -> Tally:
    """Truths no, no, yes, maybe; predictions no, yes, yes, no."""
    found = Tally(LABELS, worst=5)
    rows = [Row("", b"text %d" % number, number) for number in range(1, 5)]
    values = scores((0.75, 0.15, 0.1), (0.1, 0.8, 0.1), (0.2, 0.6, 0.2), (0.9, 0.05, 0.05))
    found.add(np.array([0, 0, 1, 2]), values, rows, "f")
    return found


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


def test_confusion_and_accuracy_by_hand() -> None:
    assert tally().confusion.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert tally().rows == 4
    assert tally().accuracy == 0.5


def test_precision_recall_and_f1_by_hand() -> None:
    no, yes, maybe = tally().by_label()
    assert (no.rows, no.predicted, no.precision, no.recall, no.f1) == (2, 2, 0.5, 0.5, 0.5)
    assert (yes.precision, yes.recall, yes.f1) == (0.5, 1.0, pytest.approx(2 / 3))
    assert (maybe.precision, maybe.recall, maybe.f1) == (0.0, 0.0, 0.0)
    assert tally().macro_f1 == pytest.approx((0.5 + 2 / 3 + 0) / 3)


def test_labels_that_never_occur_leave_macro_f1_alone() -> None:
    found = Tally(LABELS)
    found.add(np.array([0, 1]), scores((0.9, 0.1, 0), (0.1, 0.9, 0)))
    assert found.macro_f1 == 1.0


def test_calibration_error_by_hand() -> None:
    # bins: 0.75 alone and right, 0.8 alone and wrong, 0.6 alone and right, 0.9 alone and wrong
    assert tally().calibration_error == pytest.approx((0.25 + 0.8 + 0.4 + 0.9) / 4)
    low = tally().bins()[0]
    assert (low.low, low.high, low.rows, low.accuracy) == (9 / 15, 10 / 15, 1, 1.0)
    assert low.score == pytest.approx(0.6)


def test_a_score_of_one_belongs_to_the_last_bin() -> None:
    found = Tally(LABELS)
    found.add(np.array([0]), scores((1.0, 0.0, 0.0)))
    assert [(entry.high, entry.rows) for entry in found.bins()] == [(1.0, 1)]
    assert found.calibration_error == 0.0


def test_the_worst_rows_first_by_the_score_of_the_true_label() -> None:
    worst = tally().worst()
    assert [(m.truth, m.predicted, m.place) for m in worst] == [
        ("maybe", "no", "f:4"),
        ("no", "yes", "f:2"),
    ]
    assert worst[0].text == "text 4"
    assert worst[0].score == pytest.approx(0.9)
    assert worst[0].true_score == pytest.approx(0.05)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(1, 20), min_size=3, max_size=3)), max_size=40),
    st.integers(1, 7),
    st.integers(0, 4),
)
def test_any_rows_in_any_batches_as_a_dumb_program_counts(
    rows: list[tuple[int, list[int]]], size: int, keep: int
) -> None:
    truths = [truth for truth, _ in rows]
    values = [[float(np.float32(value / sum(row))) for value in row] for _, row in rows]
    guesses = [row.index(max(row)) for row in values]
    found = Tally(LABELS, keep)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        numbered = [Row("", b"", number) for number in range(len(rows))[part]]
        found.add(np.array(truths[part]), np.array(values[part], dtype=np.float32), numbered, "f")
    right = [truth == guess for truth, guess in zip(truths, guesses, strict=True)]
    assert found.accuracy == pytest.approx(sum(right) / len(rows) if rows else 0)
    for label, figures in enumerate(found.by_label()):
        both = sum(t == g == label for t, g in zip(truths, guesses, strict=True))
        either = truths.count(label) + guesses.count(label)
        assert figures.f1 == pytest.approx(2 * both / either if either else 0)
    error = 0.0
    for number in range(BINS):
        inside = [i for i, row in enumerate(values) if min(int(max(row) * BINS), BINS - 1) == number]
        error += abs(sum(max(values[i]) - right[i] for i in inside))
    assert found.calibration_error == pytest.approx(error / len(rows) if rows else 0, abs=1e-6)
    wrong = sorted((values[i][truths[i]], i) for i in range(len(rows)) if not right[i])
    assert [mistake.place for mistake in found.worst()] == [f"f:{i}" for _, i in wrong[:keep]]


def test_names_and_indices_are_labels_unless_names_are_numbers() -> None:
    assert known_labels(["no", "yes"]) == {"no": 0, "yes": 1, "0": 0, "1": 1}
    assert known_labels(["1", "0"]) == {"1": 0, "0": 1}


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


def fields(path: Path) -> list[tuple[str, bytes]]:
    return [row[:2] for row in Labelled(str(path)).rows()]


WANTED = [("no", b'so "so"'), ("1", b"b")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tsv", b'no\tso "so"\n\n1\tb'),
        ("a.txt", b'\xef\xbb\xbfno\tso "so"\r\n1\tb\r\n'),
        ("a.txt", b'__label__no so "so"\n__label__1\tb\n'),
        ("a.tsv", b'label\ttext\nno\tso "so"\n1\tb\n'),
        ("a.tsv", b'text\tid\tlabel\n"so ""so"""\t7\tno\nb\t8\t1\n'),
        ("a.csv", b'label,text\nno,"so ""so"""\n\n1,b\n'),
        ("a.jsonl", b'{"label": "no", "text": "so \\"so\\""}\n\n{"label": 1, "text": "b"}\n'),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_layouts(tmp_path: Path, name: str, data: bytes, packed: bool) -> None:
    path = tmp_path / (name + ".gz" if packed else name)
    assert fields(written(path, gzip.compress(data) if packed else data)) == WANTED


def test_only_the_first_tab_of_a_plain_line_separates(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b'0\ta\tb\n1\t\n0\t"never closed\n')
    assert fields(path) == [("0", b"a\tb"), ("1", b""), ("0", b'"never closed')]


def test_named_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"stars\treview\n5\tgood\n1\t\xff\n")
    rows = list(Labelled(str(path), None, "review", "stars").rows())
    assert rows == [Row("5", b"good", 2), Row("1", b"\xff", 3)]


def test_a_field_that_holds_newlines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b'text,label\n"one\ntwo",0\nthree,1\n')
    assert list(Labelled(str(path)).rows()) == [Row("0", b"one\ntwo", 2), Row("1", b"three", 4)]


def test_plain_can_be_forced(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"label\ttext\n")
    assert list(Labelled(str(path), "plain").rows()) == [Row("label", b"text", 1)]


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

    with Classifier.load(tiny_path, device="cpu", batch=64) as classifier:
        assert peak(8000) < peak(4000) + (2 << 20)  # of 16 MB and 8 MB


def test_texts_are_shown_on_one_line_and_cut() -> None:
    from accel_cli.commands.eval import _shown

    assert _shown("a\tb\x1b[31m\nc") == "a b [31m c"
    assert len(_shown("x" * 500)) == 100
    assert _shown("short") == "short"


def test_the_report_may_go_to_stdout(accel: Accel, predicted: list[str]) -> None:
    done = accel("eval", "--json", "-", stdin=plain(predicted))
    assert json.load(io.BytesIO(done.stdout))["rows"][0]["accuracy"] == 1.0


def test_a_number_too_long_to_read(evaluated: Callable[..., dict], tmp_path: Path) -> None:
    path = written(tmp_path / "long.jsonl", b'{"text": "good", "label": "1", "n": ' + b"9" * 5000 + b"}\n")
    with pytest.raises(InputError, match=r"long.jsonl:1: a number too long to read"):
        evaluated("--input", path)
