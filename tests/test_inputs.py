"""Patterns, folders and names: which files are meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from accel_cli.errors import InputError
from accel_cli.text.inputs import expanded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files, which is also the current one."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "b.txt",
        "a.txt",
        "a10.txt",
        "a9.txt",
        "c.csv",
        "notes.md",
        "deep/x.jsonl",
        "deep/er/y.txt.gz",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    return tmp_path


def test_names_stay_as_they_are_and_in_their_order(folder: Path) -> None:
    assert expanded(["b.txt", "-", "a.txt", "b.txt", "missing.txt"]) == [
        "b.txt",
        "-",
        "a.txt",
        "b.txt",
        "missing.txt",
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["a.txt", "a10.txt", "a9.txt", "b.txt"]),
        ("a?.txt", ["a9.txt"]),
        ("[bc].*", ["b.txt", "c.csv"]),
        ("**/*.gz", ["deep/er/y.txt.gz"]),
        ("deep/**", ["deep/er/y.txt.gz", "deep/x.jsonl"]),
        ("*.md", ["notes.md"]),
    ],
)
def test_a_pattern(folder: Path, pattern: str, found: list[str]) -> None:
    assert expanded([pattern]) == found


def test_a_pattern_without_a_match(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no file matches nothing\*; check the pattern, and quote it"):
        expanded(["a.txt", "nothing*"])


def test_a_file_whose_name_looks_like_a_pattern(folder: Path) -> None:
    (folder / "a[1].txt").write_text("x")
    (folder / "a1.txt").write_text("x")
    assert expanded(["a[1].txt"]) == ["a[1].txt"]


def test_a_folder_is_all_that_is_read_by_its_name(folder: Path) -> None:
    everything = ["a.txt", "a10.txt", "a9.txt", "b.txt", "c.csv", "deep/er/y.txt.gz", "deep/x.jsonl"]
    assert expanded(["."]) == [f"./{name}" for name in everything]
    assert expanded([str(folder)]) == [str(folder / name) for name in everything]
    assert expanded(["deep/"]) == ["deep/er/y.txt.gz", "deep/x.jsonl"]


def test_hidden_files_of_a_folder_are_passed_over(folder: Path) -> None:
    for name in (".hidden.txt", "_SUCCESS.txt", ".git/a.txt", "_temporary/a.txt"):
        (folder / "deep" / name).parent.mkdir(exist_ok=True)
        (folder / "deep" / name).write_text("x")
    assert expanded(["deep"]) == ["deep/er/y.txt.gz", "deep/x.jsonl"]


def test_output_folders_below_a_folder_are_passed_over(folder: Path) -> None:
    (folder / "deep" / "labels" / ".accel").mkdir(parents=True)
    (folder / "deep" / "labels" / "part-000000.tsv").write_text("x")
    assert "deep/labels/part-000000.tsv" in expanded(["deep"])
    (folder / "deep" / "labels" / ".accel" / "manifest.json").write_text("{}")
    assert expanded(["deep"]) == ["deep/er/y.txt.gz", "deep/x.jsonl"]
    assert expanded(["deep/labels"]) == ["deep/labels/part-000000.tsv"]


def test_a_hidden_folder_that_is_named_is_read(folder: Path) -> None:
    (folder / ".data").mkdir()
    (folder / ".data" / "a.txt").write_text("x")
    assert expanded([".data"]) == [".data/a.txt"]


def test_what_is_no_file_is_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "deep" / "pipe.txt")
    (folder / "deep" / "broken.txt").symlink_to("nowhere")
    (folder / "deep" / "linked.txt").symlink_to(folder / "a.txt")
    assert expanded(["deep"]) == ["deep/er/y.txt.gz", "deep/linked.txt", "deep/x.jsonl"]


def test_a_folder_without_a_file_to_read(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "notes.md").write_text("x")
    with pytest.raises(
        InputError, match=r"other holds no file that accel reads by its name, but 1 other; names end"
    ):
        expanded(["other"])
    (folder / "other" / "notes.md").unlink()
    with pytest.raises(InputError, match=r"^other holds no file to read; check its name$"):
        expanded(["other"])
