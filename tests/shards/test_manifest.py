"""The manifest: every field that rows depend on, and nothing else, keeps a run from going on."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from accel_cli.errors import OutputError, WeightsError
from accel_cli.shards.job import Job
from accel_cli.shards.manifest import Manifest, input_of
from accel_cli.text.readers import Source
from accel_cli.text.remote import RemoteFile

OTHERS: dict[str, tuple[Any, str]] = {
    "accel": ("9.9", "accel was {}, and is now 9.9"),
    "layout": ("csv", "--format was tsv, and is now csv"),
    "fields": (["label"], "fields was ['text', 'label'], and is now ['label']"),
    "kept": (["id"], "kept was [], and is now ['id']"),
    "on_error": ("fail", "on_error was None, and is now fail"),
    "embeddings": (True, "embeddings was False, and is now True"),
    "precision": ("tf32", "precision was auto, and is now tf32"),
    "shard_size": (65, "shard_size was 64, and is now 65"),
    "shards": (8, "shards was 7, and is now 8"),
    "model": ({"length": 5}, "model.length was None, and is now 5"),
    "inputs": ([{"path": "b.txt"}], "inputs[0].path was {}, and is now b.txt"),
}


@pytest.fixture
def manifest(job: Job, lines: Path) -> Manifest:
    return Manifest.of(job, [Source(str(lines))], 64, 7)


def test_there_and_back(manifest: Manifest, tmp_path: Path) -> None:
    manifest.write(tmp_path / "m.json")
    found = Manifest.read(tmp_path / "m.json")
    assert found is not None
    assert found == manifest
    assert found.difference(manifest) is None


@pytest.mark.parametrize("name", [field.name for field in fields(Manifest)])
def test_every_field_counts(manifest: Manifest, name: str) -> None:
    value, said = OTHERS[name]
    said = said.format(manifest.accel if name == "accel" else manifest.inputs[0]["path"])
    assert manifest.difference(replace(manifest, **{name: value})) == said


def test_another_input_another_time_another_size(job: Job, lines: Path, manifest: Manifest) -> None:
    def difference() -> str:
        return manifest.difference(Manifest.of(job, [Source(str(lines))], 64, 7)) or ""

    assert difference() == ""
    os.utime(lines, ns=(0, 0))  # a touch may come within one tick of the file system's clock
    assert difference().startswith("inputs[0].mtime_ns was ")
    lines.write_text("short")
    assert difference().startswith("inputs[0].size was 990, and is now 5")


def test_the_contents_of_the_models_files_count_not_their_places(
    job: Job, lines: Path, manifest: Manifest, tmp_path: Path
) -> None:
    copy = Path(shutil.copy(job.config.model.vocabulary, tmp_path / "other.txt"))
    moved = replace(job, config=replace(job.config, model=replace(job.config.model, vocabulary=copy)))
    assert manifest.difference(Manifest.of(moved, [Source(str(lines))], 64, 7)) is None
    copy.write_bytes(copy.read_bytes().replace(b"good", b"fine"))
    assert "model.vocabulary was sha256 " in str(
        manifest.difference(Manifest.of(moved, [Source(str(lines))], 64, 7))
    )
    copy.unlink()
    with pytest.raises(WeightsError, match=r"cannot read .*other\.txt: No such file"):
        Manifest.of(moved, [], 64, 7)


def test_a_run_may_go_on_more_leniently_not_more_strictly(manifest: Manifest) -> None:
    kinds = ["fail", None, "replace"]
    for before in kinds:
        for now in kinds:
            one, other = replace(manifest, on_error=before), replace(manifest, on_error=now)
            assert (one.difference(other) is None) == (kinds.index(now) >= kinds.index(before))


def test_the_query_of_a_url_counts_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteFile, "fingerprint", lambda file: {"size": 1, "etag": "e"})

    def said(url: str) -> dict[str, Any]:
        return input_of(Source(url))

    plain = said("https://host/a.txt")
    assert "url" not in plain
    assert said("https://me:secret@host/a.txt") == plain
    assert "url" not in said("s3://bucket/a.txt")
    one, other = said("https://host/a.txt?part=1"), said("https://host/a.txt?part=2")
    assert one["path"] == other["path"] == plain["path"]
    assert one["url"] != other["url"]
    assert said("https://me:secret@host/a.txt?part=1") == one
    assert "part=1" not in str(one)


def test_one_too_deep_to_be_compared(manifest: Manifest, tmp_path: Path) -> None:
    manifest.write(tmp_path / "m.json")
    deep = f'{{"a":{"[" * 700}{"]" * 700}}}'
    text = json.dumps({**json.loads((tmp_path / "m.json").read_text()), "model": None})
    (tmp_path / "m.json").write_text(text.replace('"model": null', f'"model": {deep}'))
    with pytest.raises(OutputError, match=r"m\.json cannot be read as a manifest"):
        Manifest.read(tmp_path / "m.json")


@pytest.mark.parametrize(
    "damage",
    [
        {"layout": "/../../x"},
        {"on_error": "?"},
        {"shards": -1},
        {"shards": None},
        {"shards": True},
        {"shards": 1_000_001},
        {"shard_size": 0},
    ],
)
def test_one_that_no_run_has_written(manifest: Manifest, tmp_path: Path, damage: dict[str, Any]) -> None:
    replace(manifest, **damage).write(tmp_path / "m.json")
    with pytest.raises(OutputError, match="a field has a value that none has"):
        Manifest.read(tmp_path / "m.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"more": 1}', "[" * 9999])
def test_a_damaged_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(OutputError, match=r"m\.json cannot be read as a manifest .*; name another folder"):
        Manifest.read(tmp_path / "m.json")
