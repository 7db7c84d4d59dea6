"""The pipeline: any lines give as many rows in order, and a failure leaves no gap."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.classifier import Classifier
from accel_cli.model.config import Config
from accel_cli.pipeline import Pipeline, Summary
from accel_cli.text.readers import Source
from accel_cli.text.rows import TextFormatter

Here = Callable[..., bytes]


@pytest.fixture(scope="module")
def classifier(tiny: Config) -> Iterator[Classifier]:
    with Classifier(tiny, "cpu") as opened:
        yield opened


@settings(max_examples=100)
@given(st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b" "))), st.booleans())
def test_any_lines(
    tmp_path_factory: pytest.TempPathFactory, classifier: Classifier, lines: list[bytes], last: bool
) -> None:
    data = b"".join(line + b"\n" for line in [b"good film to begin with", *lines])
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_bytes(data if last or data.endswith(b"\n\n") else data.removesuffix(b"\n"))
    for layout in ("tsv", "jsonl"):
        out: list[bytes] = []
        formatter = TextFormatter(layout, ["text", "label"], classifier.labels)
        summary = Pipeline(classifier, formatter, out.append).run([Source(str(path))])
        rows = b"".join(out).split(b"\n")
        assert rows.pop() == b""
        assert len(rows) == summary.sentences == sum(summary.labels.values()) == len(lines) + 1
        wanted = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines]
        if layout == "jsonl":
            assert [json.loads(row)["text"] for row in rows[1:]] == wanted


def test_a_failing_batch_leaves_no_gap(tmp_path: Path, classifier: Classifier) -> None:
    """What comes after a batch that failed must not be written: rows would answer the wrong lines."""
    path = tmp_path / "in.txt"
    path.write_bytes(b"".join(b"w%d\n" % i for i in range(20)))

    class Failing:
        plan = classifier.plan.__class__("cpu", "fp32", "folded", "folded", 2, 4)
        submitted = 0

        def text_slots(self, *_: object) -> nullcontext[list[object]]:
            return nullcontext([])

        def submit(self, batch: object) -> object:
            self.submitted += 1
            return FailingTicket() if self.submitted == 3 else classifier.engine.submit(batch)  # type: ignore[arg-type]

    class FailingTicket:
        def result(self) -> None:
            raise RuntimeError("broken")

    stand_in = copy(classifier)
    stand_in.engine = Failing()  # type: ignore[assignment]
    out: list[bytes] = []
    pipeline = Pipeline(stand_in, TextFormatter("tsv", ["text"], classifier.labels), out.append)
    with pytest.raises(RuntimeError, match="broken"):
        pipeline.run([Source(str(path))])
    assert b"".join(out) == b"w0\nw1\nw2\nw3\n"
    assert pipeline.summary.sentences == 4


def test_rows_that_could_not_be_written_are_not_followed_by_others(
    tmp_path: Path, classifier: Classifier
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n" * 50)
    calls = 0

    def write(rows: bytes) -> None:
        nonlocal calls
        calls += bool(rows)
        if rows:
            raise OSError("full")

    pipeline = Pipeline(classifier, TextFormatter("tsv", ["label"], classifier.labels), write)
    with pytest.raises(OSError, match="full"):
        pipeline.run([Source(str(path)), Source(str(path))])
    assert calls == 1


def test_progress_is_told_of_every_batch(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n" * 5)
    told: list[int] = []

    def progress(summary: Summary) -> None:
        told.append(summary.sentences)

    formatter = TextFormatter("tsv", ["label"], classifier.labels)
    Pipeline(classifier, formatter, lambda rows: None, None, progress).run([Source(str(path))] * 2)
    assert told == [5, 10]
