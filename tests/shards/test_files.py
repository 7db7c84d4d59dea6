"""Files of an output folder on a disk that is full, and in places that something else has."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel_cli.errors import OutputError
from accel_cli.shards.files import remove, replace_text, replaced, sync


def refuse(code: int) -> Callable[..., Any]:
    def refused(*arguments: Any, **more: Any) -> None:
        raise OSError(code, os.strerror(code))

    return refused


@pytest.mark.parametrize(
    ("owner", "name"), [(tempfile, "mkstemp"), (Path, "write_text"), (os, "fsync"), (os, "replace")]
)
def test_a_full_disk_wherever_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    path = tmp_path / "manifest.json"
    with monkeypatch.context() as full:
        full.setattr(owner, name, refuse(errno.ENOSPC))
        with pytest.raises(OutputError) as caught:
            replace_text(path, "all")
    said = f"cannot write {path}: No space left on device; free some space, then go on with --resume"
    assert str(caught.value) == said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.EIO))
    with pytest.raises(OutputError, match="Input/output error; mend that, then go on with --resume"):
        sync(tmp_path)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(os, "replace", refuse(code))
    with pytest.raises(OutputError, match="make it writable, then go on with --resume"):
        replace_text(tmp_path / "part", "rows")


def test_what_failed_first_is_said_if_its_file_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "unlink", refuse(errno.EACCES))
    with pytest.raises(OutputError, match=r"^the first$"), replaced(tmp_path / "part"):
        raise OutputError("the first")


def test_a_place_that_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File name too long; mend that, then go on with --resume"):
        replace_text(tmp_path / ("x" * 300), "rows")


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for target in ("mine", "nowhere", "."):
        (tmp_path / "part").unlink(missing_ok=True)
        (tmp_path / "part").symlink_to(target)
        replace_text(tmp_path / "part", "rows")
        assert not (tmp_path / "part").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "part"]
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    with (
        pytest.raises(OutputError, match="part is a folder; move it away, then go on with --resume"),
        replaced(tmp_path / "part"),
    ):
        pass
    with pytest.raises(OutputError, match=r"cannot remove .*part: .*; move it away, or name another"):
        remove(tmp_path / "part")
    assert (tmp_path / "part").is_dir()


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"^mine$"), replaced(tmp_path / "part"):
        raise OutputError("mine")
    assert list(tmp_path.iterdir()) == []
