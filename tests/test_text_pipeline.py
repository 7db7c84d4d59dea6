"""The two ways of text, over the host and in blocks on slots, give the same rows, counts and messages."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_slots import with_slots

from accel_cli import text_pipeline
from accel_cli.classifier import Classifier
from accel_cli.errors import InputError
from accel_cli.model.config import Config
from accel_cli.pipeline import Pipeline, Summary
from accel_cli.text import blocks
from accel_cli.text.readers import Source
from accel_cli.text.rows import TextFormatter

LIMIT = 40
SIZE = LIMIT + blocks.MARGIN + 30


@pytest.fixture(scope="module")
def classifier(tiny: Config) -> Iterator[Classifier]:
    with Classifier(tiny, "cpu") as opened:
        yield opened


@pytest.fixture(scope="module", autouse=True)
def _short_lines() -> Iterator[None]:
    """Lines of a few bytes, so that blocks of a few bytes hold some."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FileBlocks", "StreamBlocks"):
            patch.setattr(text_pipeline, name, partial(getattr(blocks, name), limit=LIMIT))
        yield


def run(
    classifier: Any, sources: list[Source], fields: tuple[str, ...] = ("label", "score"), **options: Any
) -> tuple[bytes, Summary]:
    out: list[bytes] = []
    formatter = TextFormatter(options.pop("layout", "tsv"), fields, classifier.labels)
    summary = Pipeline(classifier, formatter, out.append, **options).run(sources)
    summary.seconds = 0
    return b"".join(out), summary


WORDS = [
    b"good",
    b"bad film.",
    b" not ",
    b"n't",
    b"\r",
    b"\xff",
    b"\xe2\x80\x94",
    b"\xc3",
    b"\n",
    b"\n",
    b"\r\n",
]
texts = st.lists(st.sampled_from(WORDS), max_size=60).map(b"".join)


@settings(max_examples=25)
@given(st.lists(texts, min_size=1, max_size=3), st.integers(1, 3), st.sampled_from(["tsv", "csv", "jsonl"]))
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    classifier: Classifier,
    files: list[bytes],
    slots: int,
    layout: str,
) -> None:
    paths = [tmp_path_factory.getbasetemp() / f"text{number}.txt" for number in range(len(files))]
    for path, data in zip(paths, files, strict=True):
        lines = (line[:LIMIT] for line in data.split(b"\n"))  # the host's limit is another
        path.write_bytes(b"\n".join(lines))
    sources = [Source(str(path)) for path in paths]
    found = run(with_slots(classifier, SIZE, slots), sources, layout=layout)
    assert found == run(classifier, [Source(str(path)) for path in paths], layout=layout)
    assert [source.done for source in sources] == [source.size for source in sources]


def test_a_pipe_is_answered_while_its_writer_waits(
    classifier: Classifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    answered: list[bytes] = []
    done = threading.Event()
    formatter = TextFormatter("tsv", ["label"], classifier.labels)

    def write(rows: bytes) -> None:
        answered.append(rows)
        if rows:
            done.set()

    def feed() -> None:
        with open(writing, "wb", buffering=0) as stream:
            for line in (b"good\n", b"bad\n", b"film"):
                stream.write(line)
                assert done.wait(120)
                done.clear()
                if line == b"bad\n":
                    done.set()  # a last line without its end is answered at the end

    feeder = threading.Thread(target=feed)
    feeder.start()
    Pipeline(with_slots(classifier, SIZE, 3), formatter, write).run([Source(f"/dev/fd/{reading}", "text")])
    feeder.join()
    os.close(reading)
    assert len(b"".join(answered).splitlines()) == 3


def test_a_block_that_fails_is_raised_behind_the_rows_before_it(
    tmp_path: Path, classifier: Classifier
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"".join(b"good %05d\n" % number for number in range(100)))

    def around(text: bytes) -> None:
        if b"00050" in text:
            raise RuntimeError("broken")
        time.sleep(0.01 * (b"00040" in text))  # what comes later is done sooner

    out: list[bytes] = []
    pipeline = Pipeline(
        with_slots(classifier, SIZE, 3, around),
        TextFormatter("tsv", ["label"], classifier.labels),
        out.append,
    )
    with pytest.raises(RuntimeError, match="broken"):
        pipeline.run([Source(str(path))])
    rows = len(b"".join(out).splitlines())
    assert 42 <= rows <= 50
    assert pipeline.summary.sentences == rows


def test_on_error_fail_names_the_line_as_ever(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n" * 77 + b"\xff\xff film\n" + b"bad\n" * 50)
    messages = []
    for one in (classifier, with_slots(classifier, SIZE, 3)):
        with pytest.raises(InputError) as caught:
            run(one, [Source(str(path))], on_error="fail")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "in.txt:78: 2 bytes are not UTF-8" in messages[0]


def test_what_needs_the_host_goes_there(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\nbad\n")
    seen: list[bytes] = []
    slots = with_slots(classifier, SIZE, 2, seen.append)
    run(slots, [Source(str(path))], ("label", "text"))
    run(slots, [Source(str(path), "jsonl")], on_error="replace")
    assert seen == []
    run(slots, [Source(str(path))])
    assert seen == [b"good\nbad\n"]


def test_a_file_that_shrinks_ends_the_run(tmp_path: Path, classifier: Classifier) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n" * 1000)

    def around(text: bytes) -> None:
        os.truncate(path, 200)

    with pytest.raises(InputError, match="bytes too early: it was cut while it was read"):
        run(with_slots(classifier, SIZE, 1, around), [Source(str(path))])


def test_packed_files_that_are_cut_give_what_they_hold(tmp_path: Path, classifier: Classifier) -> None:
    import gzip

    path = tmp_path / "in.txt.gz"
    path.write_bytes(gzip.compress(os.urandom(4000).hex().encode() + b"\n", 0)[:3000])
    with pytest.raises(InputError, match=r"in\.txt\.gz is not a whole gzip file"):
        run(with_slots(classifier, 1 << 20, 2), [Source(str(path))])


def test_an_interruption_waits_for_nothing_but_what_is_under_way(
    tmp_path: Path, classifier: Classifier
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\n" * 10_000)
    blocks_seen: list[bytes] = []

    def around(text: bytes) -> None:
        blocks_seen.append(text)
        if len(blocks_seen) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(with_slots(classifier, SIZE, 2, around), [Source(str(path))])
    assert len(blocks_seen) < 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("accel-text")]
