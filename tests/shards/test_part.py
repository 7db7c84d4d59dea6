"""Part files and their counts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from accel_cli.pipeline import Summary
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.part import Parts, total

COUNTED = Summary(3, 1, 0, 2, 1, {"good": 1, "bad": 1}, 0.5, "a.txt:7: why")


@pytest.fixture
def parts(folder: OutputFolder) -> Parts:
    made = Parts(folder.path, "tsv")
    made.path(12).write_bytes(b"12345")
    made.keep_counts(12, COUNTED, 5)
    return made


def test_names_sort_as_numbers(parts: Parts) -> None:
    assert parts.path(12).name == "part-000012.tsv"
    assert sorted(entry.name for entry in parts.folder.glob("*")) == [".accel", "part-000012.tsv"]


def test_counts_come_back(parts: Parts) -> None:
    assert parts.summary(12) == COUNTED


def test_a_part_is_not_whole_without_file_or_counts_or_a_byte(parts: Parts) -> None:
    assert parts.summary(11) is None
    parts.path(12).write_bytes(b"1234")
    assert parts.summary(12) is None
    parts.path(12).unlink()
    assert parts.summary(12) is None
    parts.path(12).write_bytes(b"12345")
    assert parts.summary(12) == COUNTED
    parts.counts(12).unlink()
    assert parts.summary(12) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", "{}", '{"bytes": 5, "more": 1}', "\x00", "[" * 9999]
)
def test_damaged_counts(parts: Parts, text: str) -> None:
    parts.counts(12).write_text(text)
    assert parts.summary(12) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"sentences": "3"},
        {"sentences": True},
        {"failed": -1},
        {"labels": [1, 2]},
        {"labels": {"good": "1"}},
        {"labels": {"ugly": 1}},
        {"seconds": None},
        {"first_failure": 7},
    ],
)
def test_counts_that_no_run_has_written(parts: Parts, damage: dict[str, Any]) -> None:
    parts.counts(12).write_text(json.dumps({"bytes": 5, **asdict(COUNTED), **damage}))
    assert Parts(parts.folder, "tsv", ["good", "bad"]).summary(12) is None


def test_counts_that_lack_a_field(parts: Parts) -> None:
    parts.counts(12).write_text('{"bytes": 5}')
    assert parts.summary(12) is None


def test_a_failure_in_words_that_are_not_unicode(parts: Parts) -> None:
    parts.keep_counts(12, Summary(first_failure="a\udcff.txt:1: \ud800"), 5)
    assert parts.summary(12) == Summary(first_failure="a\udcff.txt:1: \ud800")


def test_what_is_there_whether_whole_or_not(parts: Parts) -> None:
    for name in ("part-000003.tsv", "part-000002.csv", "part-0000001.tsv", "part-000013.tsv"):
        (parts.folder / name).symlink_to("nowhere")
    assert [path.name for path in parts.there(13)] == ["part-000003.tsv", "part-000012.tsv"]
    assert [path.name for path in parts.counts_there(13)] == ["part-000012.json"]
    assert parts.counts_there(12) == []


def test_sums() -> None:
    other = Summary(1, 1, 1, 1, 1, {"good": 0, "bad": 1}, 0.25, "never")
    assert total({9: other, 2: COUNTED}) == Summary(
        4, 2, 1, 3, 2, {"good": 1, "bad": 2}, 0.75, "a.txt:7: why"
    )
    assert total({}) == Summary()
