"""`accel bench --suite text`: a text file -> a file of labels, beside other programs."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import needs_gpu
from hypothesis import given
from hypothesis import strategies as st
from test_docs_tables import docs

from accel_cli.bench import text_suite, text_ways
from accel_cli.bench.check import Truth
from accel_cli.bench.text_fasttext import FastText, fasttext
from accel_cli.bench.text_files import TextFile, text_file
from accel_cli.bench.text_suite import Job
from accel_cli.bench.text_ways import Way, share
from accel_cli.commands import cli
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config
from accel_cli.pipeline import Pipeline
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary

PROGRAM = """\
#!{python}
import sys
command, *words = sys.argv[1:]
if command == "supervised":
    text = open(words[words.index("-input") + 1]).read()
    open(words[words.index("-output") + 1] + ".bin", "w").write(text)
elif open(words[0]).read().startswith("__label__"):
    for line in open(words[1]):
        print("__label__1")
"""


def bench(*arguments: str | Path) -> None:
    """The command in this process, on a short text."""
    line = ["bench", "--suite", "text", "--device", "cpu", "--repeats", "2", "--bytes", "2K"]
    cli.main([*line, "--sentences", "7", *map(str, arguments)], standalone_mode=False)


@pytest.fixture(autouse=True)
def _tiny(tiny_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCEL_CONFIG", str(tiny_path))


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `fasttext` on PATH that finds everything positive."""
    path = tmp_path / "bin" / "fasttext"
    path.parent.mkdir()
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent), prepend=os.pathsep)
    return path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers get the shortest text."""
    monkeypatch.setattr(text_ways, "_SECONDS", 0.0)


def test_labels_are_read_from_all_files_in_order(tmp_path: Path) -> None:
    files = (tmp_path / "b", tmp_path / "a")
    files[0].write_bytes(b"good\t0.9\nbad\n")
    files[1].write_bytes(b"\ngood\n")
    way = Way("it", "its own", "label", TextFile(tmp_path, 4, 9), print, files, [b"bad", b"good"])
    assert way.labels().tolist() == [1, 0, -1, 1]
    assert way.output == "2 files"
    way.clear()
    assert not any(path.exists() for path in files)


def test_a_share_takes_a_few_seconds_or_is_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        versions = ()

        def way(self, text: TextFile) -> Way:
            return Way("slow", "its own", "label", text, lambda: None, (), [])

    shares: list[float] = [0.1, 0.2, 3.5]
    monkeypatch.setattr(text_ways, "_TRIAL", 20)
    monkeypatch.setattr(text_ways, "timed", lambda run: (shares.pop(0), 0.0))
    whole = text_file(tmp_path / "text.txt", [b"film"], 100)
    assert share(Slow(), tmp_path, [b"film"], whole).text.bytes == 80
    shares += [0.1] * 9
    assert share(Slow(), tmp_path, [b"film"], whole).text.bytes == whole.bytes == 100


class TestCheck:
    @pytest.fixture(autouse=True)
    def _no_timing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(text_suite, "_in_turns", lambda *_: pytest.fail("timed wrong labels"))

    @pytest.fixture
    def spoil(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Give a function that changes all rows before they are written."""

        def by(change: Any) -> None:
            class Spoiled(Pipeline):
                def __init__(self, classifier: Any, formatter: Any, write: Any) -> None:
                    super().__init__(classifier, formatter, lambda rows: write(change(rows)))

            monkeypatch.setattr(text_suite, "Pipeline", Spoiled)

        return by

    def test_a_wrong_label(self, spoil: Any) -> None:
        swapped = {b"negative": b"positive", b"positive": b"negative"}
        spoil(lambda rows: b"".join(swapped[row.split(b"\t")[0]] + b"\n" for row in rows.splitlines()))
        with pytest.raises(AccelError, match=r"not timed, because row 1 has another label.*accel validate"):
            bench()

    def test_a_lost_row(self, spoil: Any) -> None:
        spoil(lambda rows: rows.partition(b"\n")[2])
        with pytest.raises(
            AccelError, match=r"not timed, because \d+ lines gave \d+ rows; please report this"
        ):
            bench()

    def test_another_label_for_the_same_sentence(self, spoil: Any) -> None:
        spoil(lambda rows: b"\n".join([*rows.splitlines()[:-1], b"what\t0.5\n"]) if rows else rows)
        with pytest.raises(
            AccelError, match=r"row \d+ differs from row 7, though both are of the same sentence"
        ):
            bench()

    def test_either_of_two_labels_where_the_reference_is_too_near_to_tell(self) -> None:
        truth = Truth(np.array([[1.0, 1.001], [1.0, 2.0]]))
        assert text_suite.first_wrong(np.array([0, 1], np.int32), truth, 1e-2) is None
        assert text_suite.first_wrong(np.array([0, 1], np.int32), truth, 1e-4) == 0
        assert text_suite.first_wrong(np.array([1, 0], np.int32), truth, 1e-2) == 1
        assert text_suite.first_wrong(np.array([1, -1], np.int32), truth, 1e9) == 1


def test_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("a good film\nnot a good film\n\n")
    bench("--input", tmp_path / "text.txt", "--json", tmp_path / "text.json")
    found = json.loads((tmp_path / "text.json").read_bytes())
    assert (found["suite"], found["config"], found["device"], found["checked_sentences"]) == (
        "text",
        "tiny",
        "cpu",
        3,
    )
    assert found["sentences"] == {"origin": str(tmp_path / "text.txt"), "count": 3}
    assert {"machine", "versions", "commit", "date", "plan", "clock"} <= set(found)
    assert [(row["program"], row["fields"], row["output"]) for row in found["rows"]] == [
        ("accel", "label, score", "file"),
        ("accel", "label, score", "nowhere"),
    ]
    for row in found["rows"]:
        assert (row["sentences"], row["bytes"], len(row["repeats"])) == (3 * 70, 29 * 70, 2)
        assert row["seconds_fastest"] <= row["seconds"] <= row["seconds_slowest"]
        assert row["sentences_per_s"] == pytest.approx(210 / row["seconds"], rel=1e-4)
        assert row["gb_per_s"] == pytest.approx(29 * 70e-9 / row["seconds"], rel=1e-4)
        assert row["max_error"] < 1e-4
        assert row["agree_percent"] is None
    assert "3 different sentences" in capsys.readouterr().out
    marker = "<!-- text text.json -->"
    assert docs.render(f"{marker}\n<!-- end -->", tmp_path).count("\n| accel | accel's | label, score |") == 2
    assert "\nNot measured yet.\n" in docs.render("<!-- text no.json -->\n<!-- end -->", tmp_path)


@pytest.mark.usefixtures("program", "impatient")
def test_fasttext_by_its_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench("--peer", "fasttext", "--json", tmp_path / "text.json")
    found = json.loads((tmp_path / "text.json").read_bytes())
    ours, _, row = found["rows"]
    assert (row["program"], row["model"], row["fields"]) == ("fasttext program", "its own", "label")
    assert row["sentences"] == ours["sentences"]
    assert 0 <= row["agree_percent"] <= 100
    assert row["max_error"] is None
    assert found["versions"]["fasttext"] == "program"
    assert "fasttext program" in capsys.readouterr().out


@pytest.mark.usefixtures("impatient")
def test_a_program_that_fails_is_quoted(program: Path) -> None:
    program.write_text(f"#!{sys.executable}\nraise SystemExit('no memory')")
    with pytest.raises(
        AccelError, match=r"fasttext supervised ended with 1: no memory; leave --peer fasttext out"
    ):
        bench("--peer", "fasttext")


def test_a_process_that_dies_is_said(tmp_path: Path) -> None:
    def fail() -> None:
        raise MemoryError

    with ThreadPoolExecutor(1, initializer=fail) as broken:
        peer = FastText("fasttext-wheel 0", 2, tmp_path, broken, lambda part, output: None)
        way = peer.way(text_file(tmp_path / "text.txt", [b"film"], 50))
        with pytest.raises(
            AccelError, match=r"a process of fasttext-wheel 0 ended early.*leave --peer fasttext"
        ):
            way.run()


def test_peers_that_are_not_here_are_said_once_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("torch", "tokenizers", "fasttext"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setenv("PATH", "")
    bench("--peer", "torch-folded", "--peer", "fasttext", "--peer", "fasttext")
    said = capsys.readouterr().err
    assert said.count("--peer torch-folded is left out, because it needs tokenizers and torch; install") == 1
    assert said.count("--peer fasttext is left out, because it needs the program fasttext, or") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--suite", "text", "--peer", "pytorch"),
            "--peer pytorch: with --suite text a peer reads text; say torch-f",
        ),
        (("--suite", "text", "--stages"), "--stages: with --suite text whole files are classified"),
        (("--suite", "text", "--workers", "2"), "--workers 2: with --suite text"),
        (("--suite", "text", "--serve"), "--suite text: with --serve only a server"),
        (("--bytes", "1M"), "--bytes 1048576: heeded only with --suite scaling or --suite text; say "),
        (("--peer", "fasttext"), "--peer fasttext: it is another model, and reads text; say --suite text"),
        (("--peer", "torch", "--peer", "torch-folded"), "only --suite text has several; say one of them"),
    ],
)
def test_what_does_not_go_together(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cli.main(["bench", *arguments], standalone_mode=False)


@pytest.mark.extras
class TestHuggingFace:
    @pytest.fixture(autouse=True)
    def _packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        pytest.importorskip("tokenizers", reason="Hugging Face's tokenizers are not installed")
        monkeypatch.setattr(torch, "compile", lambda call, dynamic: call)  # which takes a minute

    @pytest.mark.usefixtures("impatient")
    def test_its_labels_are_ours(self, tmp_path: Path) -> None:
        bench(
            "--sentences", "300", "--bytes", "40K", "--peer", "torch-folded", "--json", tmp_path / "text.json"
        )
        found = json.loads((tmp_path / "text.json").read_bytes())
        *_, row = found["rows"]
        assert row["program"].startswith("tokenizers ")
        assert (row["model"], row["output"], row["agree_percent"]) == ("accel's", "file", 100)
        assert row["max_error"] < 1e-4
        assert {"tokenizers", "pytorch"} <= set(found["versions"])

    def test_its_tokens_are_ours(self, tiny: Config) -> None:
        from accel_cli.bench.text_hugging_face import HuggingFace

        spec = tiny.model
        vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
        ours = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens)

        class Network:
            name = version = "pytorch 0"

        theirs = HuggingFace(spec, vocabulary, Network(), 0.0, [], Path())  # type: ignore[arg-type]
        pieces = [
            "don't",
            "n't",
            "Film",
            "\u2019s",
            "'s",
            "bad.",
            "a,the",
            "good\u2014bad",
            "\U0001f600",
            "é",
            "w3",
            " ",
            "\r",
        ]

        @given(st.lists(st.lists(st.sampled_from(pieces), max_size=40).map("".join), min_size=1, max_size=4))
        def same(texts: list[str]) -> None:
            lines = [text.encode() for text in texts]
            found, expected = theirs.tokens(b"\n".join(lines) + b"\n"), ours.encode(lines).batch
            assert found.offsets.tolist() == expected.offsets.tolist()
            assert found.ids.tolist() == expected.ids.tolist()

        same()


@pytest.mark.extras
@pytest.mark.usefixtures("impatient")
def test_fasttext_by_its_python_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fasttext", reason="fasttext-wheel is not installed")
    monkeypatch.setenv("PATH", "")
    lines = [b"a good film", b"", b"a bad film", b"\xff\x00 bad"] * 50
    labels = np.array([1, 1, 0, 0] * 50, np.int32)
    with fasttext(lines, labels, 2, tmp_path) as peer:
        way = peer.way(text_file(tmp_path / "text.txt", lines, 5000))
        way.run()
        found = way.labels()
    assert len(found) == way.text.sentences
    assert np.mean(found[: len(labels)] == labels) > 0.7
    assert peer.versions[0].startswith("fasttext")


@pytest.mark.gpu
@needs_gpu
def test_text_that_the_device_reads(tiny: Config) -> None:
    found = text_suite.run(tiny, "cuda", Job(50, 2, 1 << 20), print).as_json()
    assert found["machine"]["gpu"]["name"]
    assert all(row["sentences_per_s"] > 0 for row in found["rows"])
