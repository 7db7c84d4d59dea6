"""`accel run` into a folder: the rows of one run, however it is cut up, cut short and gone on with."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_cli.commands import cli
from accel_cli.errors import AccelError, InputError, OutputError, UsageError
from accel_cli.shards.part import HIDDEN
from accel_cli.shards.worker import ShardWorker
from shards.conftest import Here

TEXT = ("--fields", "text,label")


def rows(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("part-*")))


def single(*arguments: str | Path) -> bytes:
    """The rows of `accel run` into one file."""
    with tempfile.TemporaryDirectory() as folder:
        cli.main(["run", *map(str, arguments), "--output", f"{folder}/rows"], standalone_mode=False)
        return Path(folder, "rows").read_bytes()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    files=st.lists(
        st.lists(st.sampled_from([b"good", b"", b"bad film", b"\xff", b"a\r", b"w3 " * 9]), max_size=12),
        min_size=1,
        max_size=3,
    ),
    end=st.sampled_from([b"", b"\n", b"\r\n"]),
    size=st.integers(4, 60),
)
def test_rows_once_each_and_in_order_whatever_the_shards(
    run_into: Here, files: Sequence[Sequence[bytes]], end: bytes, size: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        for number, texts in enumerate(files):
            numbered = (b"%d.%d %s" % (number, place, text) for place, text in enumerate(texts))
            Path(name, f"{number}.txt").write_bytes(b"\n".join(numbered) + (end if texts else b""))
        cut = ("--input", name, *TEXT, "--batch", "4", "--output", f"{name}/out/", "--shard-size", size)
        cli.main(["run", *map(str, cut), "--merge", f"{name}/all.tsv"], standalone_mode=False)
        wanted = single("--input", f"{name}/[0-9].txt", *TEXT)
        assert rows(Path(name, "out")) == wanted
        assert Path(name, "all.tsv").read_bytes() == wanted


def test_one_csv_of_many(run_into: Here, lines: Path, tmp_path: Path) -> None:
    run_into("--input", lines, *TEXT, "--format", "csv", "--shard-size", 300, "--merge", tmp_path / "all.csv")
    merged = (tmp_path / "all.csv").read_bytes()
    assert merged == single("--input", lines, *TEXT, "--format", "csv")
    assert merged.count(b"text,label\n") == 1
    assert rows(tmp_path / "out").count(b"text,label\n") == 4


def test_what_is_missing_is_made_and_nothing_else(
    run_into: Here, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_into("--input", lines, *TEXT, "--shard-size", "300")
    first = rows(tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("part-*"))
    stamps = [path.stat().st_ino for path in parts]
    parts[1].unlink()
    capsys.readouterr()
    run_into("--input", lines, *TEXT, "--resume")
    assert rows(tmp_path / "out") == first
    assert [path.stat().st_ino == stamp for path, stamp in zip(parts, stamps, strict=True)][0::2] == [
        True
    ] * 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "accel: 4 shards, 3 of them done before"
    assert said[2].startswith("accel: 30 sentences in ")
    assert said[2].endswith("; 70 more were there")
    assert sum(int(word.rstrip(",")) for word in said[3].split() if word.rstrip(",").isdigit()) == 100


def test_nothing_is_loaded_when_nothing_is_missing(
    run_into: Here, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_into("--input", lines)
    monkeypatch.delattr(ShardWorker, "__init__")
    run_into("--input", lines, "--resume", "--merge", tmp_path / "all.tsv")
    assert (tmp_path / "all.tsv").read_bytes() == rows(tmp_path / "out")


def test_an_empty_input_has_one_empty_part(run_into: Here, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"")
    run_into("--input", tmp_path / "in.txt")
    assert [path.name for path in (tmp_path / "out").glob("part-*")] == ["part-000000.tsv"]


def test_arrays_and_packed_files_are_a_shard_each(run_into: Here, lines: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.full((5, 6), 3, np.int32))
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(lines.read_bytes()))
    run_into("--input", tmp_path / "packed.txt.gz", "--input", tmp_path / "ids.npy", "--shard-size", 10)
    counts = [len(path.read_bytes().splitlines()) for path in sorted((tmp_path / "out").glob("part-*"))]
    assert counts == [100, 5]


def test_a_bad_record_and_how_to_go_on(
    run_into: Here, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "good"}\n' * 30 + "{\n" + '{"text": "bad"}\n' * 30)
    with pytest.raises(InputError, match=r"in.jsonl, bytes 323 to 639, line 12 there: not valid JSON"):
        run_into("--input", path, "--shard-size", 310)
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"accel: stopped early; 1 of 4 parts in {tmp_path}/out are whole; --resume --on-error replace goes on"
        " past bad records; a mended input needs a run of its own"
    )
    run_into("--input", path, "--resume", "--on-error", "replace")
    assert "failed records 1" in capsys.readouterr().err
    assert rows(tmp_path / "out") == single("--input", path, "--on-error", "replace")
    with pytest.raises(
        OutputError, match="begun differently: on_error was replace, and is now None; say the"
    ):
        run_into("--input", path, "--resume")


def test_an_input_that_changes_while_it_is_read(
    run_into: Here, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = ShardWorker.close

    def and_touch(worker: ShardWorker) -> None:
        os.utime(lines, ns=(0, 0))
        close(worker)

    monkeypatch.setattr(ShardWorker, "close", and_touch)
    with pytest.raises(
        InputError, match=r"lines.txt changed while it was read; begin again with --overwrite"
    ):
        run_into("--input", lines)


def test_the_merged_file_is_not_replaced_unasked(run_into: Here, lines: Path, tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("mine")
    with pytest.raises(OutputError, match=r"all.tsv exists already; say --overwrite to replace it"):
        run_into("--input", lines, "--merge", tmp_path / "all.tsv")
    assert list((tmp_path / "out").glob("part-*")) == []
    run_into("--input", lines)
    run_into("--input", lines, "--resume", "--merge", tmp_path / "all.tsv", "--overwrite")
    assert (tmp_path / "all.tsv").read_bytes() == rows(tmp_path / "out")


@pytest.mark.parametrize("name", ["all.tsv", f"{HIDDEN}/manifest.json", "part-000000.tsv"])
def test_a_merged_file_lies_elsewhere(run_into: Here, lines: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(UsageError, match=r"lies in the output folder .*out; name a file elsewhere"):
        run_into("--input", lines, "--merge", tmp_path / "link" / name, "--overwrite")
    assert not (tmp_path / "out").exists()


def test_a_merged_file_is_no_input(run_into: Here, lines: Path, tmp_path: Path) -> None:
    (tmp_path / "link.tsv").symlink_to(lines)
    before = lines.read_bytes()
    with pytest.raises(UsageError, match=r"link.tsv is an input too; name another file"):
        run_into("--input", lines, "--merge", tmp_path / "link.tsv", "--overwrite")
    assert lines.read_bytes() == before


def test_a_merged_file_elsewhere(run_into: Here, lines: Path) -> None:
    with pytest.raises(UsageError, match="--merge gs://bucket/all: rows are written to this machine; name"):
        run_into("--input", lines, "--merge", "gs://bucket/all")


def test_an_output_folder_within_the_input(tiny_path: Path, lines: Path, tmp_path: Path) -> None:
    line = ["run", "--config", str(tiny_path), "--input", str(lines.parent), "--device", "cpu"]
    line += ["--output", f"{lines.parent}/labels/"]
    cli.main(line, standalone_mode=False)
    first = rows(tmp_path / "labels")
    for again in ("--resume", "--overwrite"):
        cli.main([*line, again], standalone_mode=False)
        assert rows(tmp_path / "labels") == first


def test_names_that_are_not_utf8(run_into: Here, lines: Path, tmp_path: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/\xff.txt")
    lines.rename(name)
    run_into("--input", name)
    run_into("--input", name, "--resume")
    assert len(rows(tmp_path / "out").splitlines()) == 100


def test_a_folder_in_the_place_of_a_part(
    run_into: Here, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_into("--input", lines, "--shard-size", "300")
    part = tmp_path / "out" / "part-000001.tsv"
    part.unlink()
    part.mkdir()
    with pytest.raises(OutputError, match=r"part-000001.tsv is a folder; move it away, then go on with"):
        run_into("--input", lines, "--resume")
    assert "stopped early; 3 of 4 parts" in capsys.readouterr().err
    with pytest.raises(OutputError, match=r"cannot remove .*part-000001.tsv: .*; move it away, or name"):
        run_into("--input", lines, "--overwrite")


def test_parts_are_counted_when_a_run_is_cut_short(
    run_into: Here,
    lines: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of those that were there when it began, one has gone since."""
    run_into("--input", lines, "--shard-size", "300")
    (tmp_path / "out" / "part-000003.tsv").unlink()

    def fail(*arguments: Any) -> None:
        (tmp_path / "out" / "part-000000.tsv").unlink()
        raise OutputError("no room")

    monkeypatch.setattr(ShardWorker, "write", fail)
    with pytest.raises(OutputError, match="no room"):
        run_into("--input", lines, "--resume")
    assert "stopped early; 2 of 4 parts" in capsys.readouterr().err


def test_a_folder_that_cannot_be_looked_through(
    run_into: Here, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed before that is said."""

    def refuse(*arguments: Any) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    def fail(*arguments: Any) -> None:
        monkeypatch.setattr(Path, "glob", refuse)
        raise OutputError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(ShardWorker, "write", fail)
        with pytest.raises(OutputError, match="no room"):
            run_into("--input", lines)
    with pytest.raises(
        OutputError, match="out: Permission denied; make it writable, then go on with --resume"
    ):
        run_into("--input", lines, "--resume")


def test_an_input_that_is_broken_but_no_record_of_it(
    run_into: Here, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(lines.read_bytes())[:-9])
    with pytest.raises(InputError):
        run_into("--input", packed)
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith(
            "; mend the input, then begin again with --overwrite; --resume goes on only if it is as it was"
        )
    )


@pytest.mark.extras
def test_parquet_parts_and_their_merge(run_into: Here, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet", reason="needs the extra parquet")
    import pyarrow as arrow

    table = arrow.table({"id": range(100), "body": [f"good w{i % 9}" for i in range(100)]})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=30)
    arguments = (
        "--input",
        tmp_path / "in.parquet",
        "--column",
        "body",
        "--format",
        "parquet",
        "--keep",
        "id",
    )
    run_into(*arguments, "--shard-size", 1, "--merge", tmp_path / "all.parquet")
    found = parquet.read_table(tmp_path / "out")
    assert found["id"].to_pylist() == list(range(100))
    assert found.column_names == ["id", "label", "score"]
    merged = parquet.read_table(tmp_path / "all.parquet")
    assert merged.to_pylist() == found.to_pylist()
    (tmp_path / "one.parquet").write_bytes(single(*arguments))
    assert parquet.read_table(tmp_path / "one.parquet").to_pylist() == found.to_pylist()
    assert len(list((tmp_path / "out").glob("part-*.parquet"))) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--resume", "--overwrite"),
            "--resume goes on with a run, --overwrite begins it again; say one of them",
        ),
        (("--workers", "2", "--device", "cuda:0,1"), "each GPU named has one worker"),
        (("--address", "auto"), "--address auto is that of a Ray cluster; say --engine ray too"),
        (
            ("--engine", "ray", "--workers", "2"),
            "a Ray cluster has a worker for each GPU or core; leave it out",
        ),
        (
            ("--keep", "id"),
            "--keep id: only rows of --format parquet keep columns; say that, or leave it out",
        ),
        (("--input", "-"), "stdin cannot be read a second time, as a retry must; write it to a file first"),
    ],
)
def test_what_does_not_go_together(lines: Path, tmp_path: Path, arguments: Sequence[str], said: str) -> None:
    line = ["run", "--input", str(lines), "--output", f"{tmp_path}/out/", *arguments]
    with pytest.raises(UsageError) as caught:
        cli.main(line, standalone_mode=False)
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--shard-size", "9"),
        ("--workers", "2"),
        ("--resume",),
        ("--merge", "all.tsv"),
        ("--device", "cuda:all"),
        ("--engine", "ray"),
        ("--address", "auto"),
    ],
)
def test_what_needs_a_folder(lines: Path, tmp_path: Path, arguments: Sequence[str]) -> None:
    line = ["run", "--input", str(lines), "--output", str(tmp_path / "out.tsv"), *arguments]
    with pytest.raises(
        UsageError, match="is for an output of several files; name a folder, as --output labels/"
    ):
        cli.main(line, standalone_mode=False)


def test_an_output_elsewhere(lines: Path) -> None:
    with pytest.raises(UsageError, match="--output s3://bucket/out/: rows are written to this machine; name"):
        cli.main(["run", "--input", str(lines), "--output", "s3://bucket/out/"], standalone_mode=False)


def test_the_output_as_an_input(run_into: Here, lines: Path, tmp_path: Path) -> None:
    run_into("--input", lines)
    with pytest.raises(
        UsageError, match=r"part-000000.tsv lies in the output folder .*out; name another one"
    ):
        run_into("--input", tmp_path / "out" / "part-000000.tsv", "--resume")


def test_a_named_pipe(run_into: Here, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe cannot be read a second time"):
        run_into("--input", tmp_path / "pipe")


@pytest.mark.parametrize("size", ["0", "-1", "x", "1.5M", "", "64MB", "9" * 16])
def test_no_size(run_into: Here, lines: Path, size: str) -> None:
    with pytest.raises(Exception, match="is no size; say bytes, or a number with K, M, G or T as 64M"):
        run_into("--input", lines, "--shard-size", size)


def test_sizes_in_units(run_into: Here, lines: Path, tmp_path: Path) -> None:
    run_into("--input", lines, "--shard-size", "3k")
    assert json.loads((tmp_path / "out" / HIDDEN / "manifest.json").read_text())["shard_size"] == 3072


def test_a_damaged_manifest(run_into: Here, lines: Path, tmp_path: Path) -> None:
    run_into("--input", lines)
    (tmp_path / "out" / HIDDEN / "manifest.json").write_text("{")
    for arguments in ((), ("--resume",), ("--overwrite",)):
        with pytest.raises(
            AccelError, match=r"manifest.json cannot be read as a manifest .*; name another folder"
        ):
            run_into("--input", lines, *arguments)
    assert rows(tmp_path / "out")
