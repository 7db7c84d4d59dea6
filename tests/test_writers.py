"""Rows as tsv, csv and jsonl, and files that appear whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import socket
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.batches import Predictions
from accel_cli.errors import OutputError
from accel_cli.text.chunks import TextChunk
from accel_cli.text.rows import FIELDS, TextFormatter
from accel_cli.text.writers import claim, opened_output, write_all
from accel_cli.train.folder import check_free

LABELS = ("negative", "positive")
LOGITS = np.array([[1.0, -1.0], [-0.25, 2.0], [0.5, 0.5]], dtype=np.float32)
FOUND = Predictions.from_logits(LOGITS)
TEXTS = [b"a\tb", b"c\nd\\", b"\xff\r"]


def rows(layout: str, fields: Sequence[str], failed: Sequence[int] = (), texts: list[bytes] = TEXTS) -> str:
    formatter = TextFormatter(layout, fields, LABELS)
    count = len(texts)
    found = Predictions(FOUND.logits[:count], FOUND.scores[:count], FOUND.labels[:count])
    return (
        formatter.header() + formatter.rows(TextChunk(texts, 1, dict.fromkeys(failed, "")), found)
    ).decode()


def test_tsv_by_default() -> None:
    assert rows("tsv", ["label", "score"]) == "negative\t0.8808\npositive\t0.9047\nnegative\t0.5000\n"


def test_tsv_escapes_what_would_break_a_row() -> None:
    assert rows("tsv", ["text", "label"]) == "a\\tb\tnegative\nc\\nd\\\\\tpositive\n\ufffd\\r\tnegative\n"


def test_tsv_of_all_fields() -> None:
    first = rows("tsv", FIELDS).splitlines()[0]
    assert first == "a\\tb\tnegative\t0.8808\t0.8808\t0.1192\t1.000000\t-1.000000"


def test_csv_has_a_header_and_quotes() -> None:
    table = list(csv.reader(io.StringIO(rows("csv", FIELDS), newline="")))
    assert table[0] == [
        "text",
        "label",
        "score",
        "scores.negative",
        "scores.positive",
        "logits.negative",
        "logits.positive",
    ]
    assert table[2] == ["c\nd\\", "positive", "0.9047", "0.0953", "0.9047", "-0.250000", "2.000000"]
    assert table[3][0] == "\ufffd\r"


def test_jsonl_names_the_labels() -> None:
    found = [json.loads(line) for line in rows("jsonl", FIELDS).splitlines()]
    assert found[1] == {
        "text": "c\nd\\",
        "label": "positive",
        "score": 0.9047,
        "scores": {"negative": 0.0953, "positive": 0.9047},
        "logits": {"negative": -0.25, "positive": 2.0},
    }


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("tsv", "c\\nd\\\\" + "\t" * 6),
        ("csv", '"c\nd\\"' + "," * 6),
        ("jsonl", '{"text": "c\\nd\\\\", "label": null, "score": null, "scores": null, "logits": null}'),
    ],
)
def test_a_failed_record_has_empty_values(layout: str, row: str) -> None:
    assert f"\n{row}\n" in rows(layout, FIELDS, [1])
    assert rows(layout, ["label", "score"], [0, 1, 2]).count("negative") == 0


@settings(max_examples=100)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3), st.booleans())
def test_texts_come_back_from_every_format(texts: list[str], alone: bool) -> None:
    fields = ["text"] if alone else ["label", "text"]
    given_texts = [text.encode() for text in texts]
    tsv = rows("tsv", fields, texts=given_texts).split("\n")[:-1]
    escapes = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}
    assert len(tsv) == len(texts)
    for line, text in zip(tsv, texts, strict=True):
        *before, last = line.split("\t")
        assert len(before) == len(fields) - 1
        plain, at = "", 0
        while at < len(last):
            pair = escapes.get(last[at : at + 2])
            plain += pair or last[at]
            at += 2 if pair else 1
        assert plain == text
    table = list(csv.reader(io.StringIO(rows("csv", fields, texts=given_texts), newline="")))
    assert [row[-1] for row in table] == ["text", *texts]
    lines = rows("jsonl", fields, texts=given_texts).split("\n")[:-1]
    assert [json.loads(line)["text"] for line in lines] == texts


# Outputs


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    with opened_output(str(path), False) as file:
        write_all(file, b"a\n")
        assert not path.exists()
        assert [entry.name[:9] for entry in tmp_path.iterdir()] == [".out.tsv-"]
    assert path.read_bytes() == b"a\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.tsv"]


def test_it_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with opened_output(str(tmp_path / "out.tsv"), False):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.tsv").stat().st_mode) == 0o640


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, OutputError, ValueError])
def test_a_failure_leaves_the_old_file(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("old")

    def fail() -> None:
        with opened_output(str(path), True) as file:
            write_all(file, b"new")
            raise failure

    with pytest.raises(failure):
        fail()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.tsv"]


def refusal(path: object, overwrite: bool = False) -> str:
    with pytest.raises(OutputError) as failure, opened_output(str(path), overwrite):
        pass
    return str(failure.value)


def test_what_exists_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("old")
    assert refusal(path) == f"{path} exists already; say --overwrite to replace it, or name another file"
    with opened_output(str(path), True) as file:
        write_all(file, b"new")
    assert path.read_text() == "new"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real/out.tsv")
    with opened_output(str(tmp_path / "link"), False) as file:
        write_all(file, b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "out.tsv").read_text() == "new"
    assert "exists already" in refusal(tmp_path / "link")


def test_outputs_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path) == f"{tmp_path} is a folder; name a file"
    assert "cannot write into" in refusal(tmp_path / "none" / "out.tsv")
    assert "No such file or directory; name a file in another folder" in refusal(
        tmp_path / "none" / "out.tsv"
    )
    assert "cannot write into" in refusal(tmp_path / "file" / "out.tsv")


def test_a_name_that_is_too_long_is_known_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    with pytest.raises(OutputError, match=r"cannot write .*x: File name too long; name a shorter one"):
        claim(str(path), True)
    with pytest.raises(OutputError, match="File name too long; name a shorter one"):
        check_free(path, True)


def test_a_folder_that_comes_in_between(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"

    def write() -> None:
        with opened_output(str(path), True):
            path.mkdir()

    with pytest.raises(OutputError, match=r"cannot write .*out\.tsv: Is a directory; name another file"):
        write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.tsv"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_comes_in_between_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    path = tmp_path / "out.tsv"

    def no_link(*names: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    def write(others: str | None) -> None:
        with opened_output(str(path), False) as file:
            write_all(file, b"ours")
            if others:
                path.write_text(others)

    if not links:
        monkeypatch.setattr("os.link", no_link)
    with pytest.raises(OutputError, match=r"out\.tsv has come to exist meanwhile; say --overwrite"):
        write("theirs")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.tsv", "theirs")]
    path.unlink()
    write(None)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out.tsv", "ours")]


def test_what_is_replaced_keeps_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("old")
    path.chmod(0o604)
    with opened_output(str(path), True):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_names_that_are_none(tmp_path: Path) -> None:
    assert refusal("") == "the name of an output is empty; name a file"
    assert refusal(f"{tmp_path}/new/") == f"{tmp_path}/new/ is a folder; name a file"
    assert list(tmp_path.iterdir()) == []


def test_a_failure_within_is_not_one_of_the_output(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), opened_output(str(tmp_path / "out.tsv"), False):
        (tmp_path / "none").read_bytes()


def test_a_socket_is_no_output(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert "cannot write to" in refusal(tmp_path / "s")
        assert "No such device or address; name another file" in refusal(tmp_path / "s")


def test_the_longest_name_there_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 127)
    with opened_output(str(path), False):
        pass
    assert path.exists()


@pytest.mark.skipif(os.geteuid() == 0 or not Path("/proc").exists(), reason="root may write everywhere")
def test_a_device_without_the_right_to_write() -> None:
    assert "cannot write to /dev/mem: Permission denied" in refusal("/dev/mem")


def test_a_named_pipe_is_written_into(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    with opened_output(str(path), False) as file:
        write_all(file, b"a\n")
    reader.join()
    assert found == [b"a\n"]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_full_pipe_is_waited_for(blocking: bool) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    data = b"0123456789" * 50_000
    found: list[bytes] = []
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as file:
        reader = threading.Thread(target=lambda: found.append(stream.read()))
        reader.start()
        write_all(file, data)
        file.close()
        reader.join()
    assert found == [data]
