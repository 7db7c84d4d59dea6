"""`accel run`: N records in, N rows out, in order, by every way in and out."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, Accel, command

from accel_cli.classifier import Classifier
from accel_cli.model.config import Config

Here = Callable[..., bytes]

ODD = [
    b"a good film.",
    b"",
    b"   \t ",
    b"w3 w4 w5 not bad",
    b"nothing known here",
    b"a\x00good\x00film",
    b"\x00",
    b"\xff\xfe\xfd good",
    b"good\x85film\xc2\x85the\xe2\x80\xa8end",
    b"good \x0c\x0b\x1c\x1d\x1e film",
    b"a" * 1_000_000,
    b"good " * 200_000,
    b"it's n't the film \xf0\x9f\x98\x80",
    b"'",
    b"\\t\\n\\",
    b'"quoted, "" text"',
]


def expected(config: Config, texts: list[bytes]) -> list[tuple[str, float]]:
    with Classifier(config, "cpu") as classifier:
        found = classifier.predict(texts)
        # a sentence's scores do not depend on its batch, but for the last digits
        alone = np.concatenate([classifier.predict([text]).scores for text in texts])
    assert np.allclose(found.scores, alone, atol=1e-6)
    return list(zip(found.labels.tolist(), found.scores.max(axis=1).tolist(), strict=True))


def parsed(output: bytes) -> list[tuple[str, float]]:
    rows = [line.split("\t") for line in output.decode().split("\n")[:-1]]
    return [(label, float(score)) for label, score in rows]


def same(got: list[tuple[str, float]], wanted: list[tuple[str, float]]) -> bool:
    labels = [label for label, _ in got] == [label for label, _ in wanted]
    return labels and np.allclose([s for _, s in got], [s for _, s in wanted], atol=6e-5)


@pytest.fixture(scope="module")
def odd(tiny: Config) -> list[tuple[str, float]]:
    return expected(tiny, ODD)


@pytest.mark.parametrize("batch", ["1", "3", "4096"])
@pytest.mark.parametrize("streams", ["1", "4"])
@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n"])
def test_a_row_a_line_in_order(
    run_here: Here, tmp_path: Path, odd: list[tuple[str, float]], batch: str, streams: str, end: bytes
) -> None:
    path = tmp_path / "odd.txt"
    path.write_bytes((b"\r\n" if end == b"\r\n" else b"\n").join(ODD) + end)
    assert same(parsed(run_here("--input", path, "--batch", batch, "--streams", streams)), odd)


def test_stdin_named_and_not(accel: Accel, odd: list[tuple[str, float]]) -> None:
    data = b"\n".join(ODD)
    for arguments in (["--input", "-"], []):
        result = accel("run", *arguments, stdin=data)
        assert result.returncode == 0
        assert same(parsed(result.stdout), odd)


def test_nothing_piped_into_stdin_is_an_empty_input(accel_here: Accel) -> None:
    result = accel_here("run", stdin=b"")
    assert (result.returncode, result.stdout) == (0, b"")
    assert b"0 sentences" in result.stderr


def test_several_inputs_in_order(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"first\nhalf")  # no newline: the next file is not glued to it
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"packed\n"))
    (tmp_path / "c.csv").write_bytes(b'id,text\n1,"of, csv"\n')
    (tmp_path / "d.jsonl").write_bytes(b'{"text": "of json"}\n')
    (tmp_path / "e.txt").write_bytes(b"")
    inputs = [
        f"--input={tmp_path / name}" for name in ("a.txt", "e.txt", "b.txt.gz", "c.csv", "d.jsonl", "a.txt")
    ]
    output = run_here(*inputs, "--fields", "text")
    assert output.decode().splitlines() == ["first", "half", "packed", "of, csv", "of json", "first", "half"]


def test_a_named_pipe_from_the_shell(accel: Accel, tiny_path: Path) -> None:
    line = f"{sys.executable} -m accel_cli run --input <(printf 'a\\nb') --fields text,label"
    environment = {**os.environ, "ACCEL_CONFIG": str(tiny_path)}
    result = subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert [row.split(b"\t")[0] for row in result.stdout.splitlines()] == [b"a", b"b"]


def test_the_formats(run_here: Here, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b'good\tfilm\n\xff, "bad"\n')
    fields = ("--fields", "label,text,score,scores,logits")
    objects = [
        json.loads(line) for line in run_here("--input", path, "--format", "jsonl", *fields).splitlines()
    ]
    table = list(csv.DictReader(io.StringIO(run_here("--input", path, "--format", "csv", *fields).decode())))
    plain = [line.split("\t") for line in run_here("--input", path, *fields).decode().splitlines()]
    assert (
        [row["text"] for row in objects] == [row["text"] for row in table] == ["good\tfilm", '\ufffd, "bad"']
    )
    assert [row[1] for row in plain] == ["good\\tfilm", '\ufffd, "bad"']
    for one, two, three in zip(objects, table, plain, strict=True):
        assert list(one) == ["label", "text", "score", "scores", "logits"]
        scores, logits = [one["score"], *one["scores"].values()], one["logits"].values()
        assert [*(f"{n:.4f}" for n in scores), *(f"{n:.6f}" for n in logits)] == three[2:]
        assert list(two.values()) == [*three[:1], one["text"], *three[2:]]
        assert one["score"] == max(one["scores"].values())
        assert one["label"] == max(one["scores"], key=one["scores"].get)
        assert sum(one["scores"].values()) == pytest.approx(1, abs=2e-4)


def test_csv_of_nothing_has_its_header(run_here: Here, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"")
    assert run_here("--input", tmp_path / "in.txt", "--format", "csv") == b"label,score\n"


def test_the_summary(accel_here: Accel, tmp_path: Path) -> None:
    lines = [b"good", b"", b"\xff\xff", b"film " * 25, b" ", b"x" * 2000]
    result = accel_here("run", stdin=b"\n".join(lines))
    report = result.stderr.decode().splitlines()
    labels = [label for label, _ in parsed(result.stdout)]
    assert report[0].startswith("accel: device=cpu precision=fp32 ")
    assert report[1].startswith("accel: 6 sentences in ")
    assert report[1].endswith(" sentences/s")
    counted = f"negative {labels.count('negative')}, positive {labels.count('positive')}"
    assert report[2] == f"accel: labels: {counted}"
    assert report[3] == "accel: truncated 2, blank 2, replaced bytes 2, failed records 0"
    assert "some bytes were not UTF-8; they count as parts of words and print as U+FFFD" in report[4]
    assert len(report) == 5


def test_replaced_records_have_empty_labels(accel_here: Accel, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "good"}\n{"text": 5}\n{\n{"text": ""}\n')
    replace = ("--on-error", "replace")
    result = accel_here("run", "--input", path, *replace, "--format", "jsonl", "--fields", "text,label,score")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert [row["text"] for row in rows] == ["good", "", "", ""]
    assert [row["label"] is None for row in rows] == [False, True, True, False]
    assert rows[1] == {"text": "", "label": None, "score": None}
    report = result.stderr.decode()
    assert "4 sentences" in report
    assert "blank 1, replaced bytes 0, failed records 2" in report
    assert f"the first failed record: {path}:2: 'text' is int, not a string" in report
    result = accel_here("run", "--input", path, *replace, "--batch", "1")
    assert [line == b"\t" for line in result.stdout.splitlines()] == [False, True, True, False]


def test_an_output_file(accel_here: Accel, tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    assert accel_here("run", "--output", path, stdin=b"good\n").returncode == 0
    first = path.read_bytes()
    assert len(parsed(first)) == 1
    result = accel_here("run", "--output", path, stdin=b"good\nbad\n")
    assert result.returncode == 1
    assert b"exists already; say --overwrite to replace it, or name another file" in result.stderr
    assert path.read_bytes() == first
    result = accel_here("run", "--output", path, "--overwrite", stdin=b"good\nbad\n")
    assert (result.returncode, result.stdout) == (0, b"")
    assert len(parsed(path.read_bytes())) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.tsv"]


def test_an_input_may_be_its_own_output(run_here: Here, tmp_path: Path) -> None:
    path = tmp_path / "rows.out"
    path.write_bytes(b"good\nbad\n")
    assert len(parsed(run_here("--input", path))) == 2


def test_a_failure_leaves_the_old_output(accel_here: Accel, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"text": "good"}\n{\n')
    (tmp_path / "out.tsv").write_text("old")
    arguments = ("--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.tsv", "--overwrite")
    result = accel_here("run", *arguments, "--batch", "1")
    assert result.returncode == 1
    assert (tmp_path / "out.tsv").read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["in.jsonl", "out.tsv"]


def test_two_processes_on_one_empty_cache(tiny_path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "ACCEL_CONFIG": str(tiny_path), "ACCEL_CACHE_DIR": str(tmp_path / "cache")}
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command("run"), cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        for _ in range(2)
    ]
    outputs = [process.communicate(b"good\nbad\n", timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert len({rows for rows, _ in outputs}) == 1
    assert len(list((tmp_path / "cache" / "weights").iterdir())) == 1
