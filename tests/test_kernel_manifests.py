"""manifest.json of a folder of kernels, as a stranger may have written it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_folders import Folder, folder_of_kernels

from accel_cli.cuda import manifest as module
from accel_cli.cuda.cache import KernelCache
from accel_cli.cuda.manifest import MANIFEST, load_manifest
from accel_cli.cuda.ready import ReadyKernels
from accel_cli.errors import DeviceError


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folder:
    return folder_of_kernels(monkeypatch, tmp_path)


def test_no_file_is_named_by_the_manifest(folder: Folder) -> None:
    outside = folder.path.parent / "outside.cubin"
    outside.write_bytes(folder.file("relu").read_bytes())
    for word in ("../outside", "/etc/passwd", "relu/../../outside", "relu\0", "..", ""):
        folder.edit(lambda values, word=word: values["kernels"][0].update(kernel=word))
        with pytest.raises(DeviceError, match=r"manifest.json is no manifest .*kernel"):
            load_manifest(folder.path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (b"[]", "it is no JSON object"),
        (b"[" * 100_000, "recursion|nested"),
        (b"1" * 10_000, "digits"),
        (b'{"format": 2}', "its format is '2', and this accel reads 1"),
        (b'{"format": true}', "its format is 'True'"),
        (b'{"format": 1}', "kernels: expected a list"),
        (b'{"format": 1, "kernels": [1]}', r"kernels\[0\]: expected an object"),
        (b'{"format": 1, "kernels": [{}]}', r"kernels\[0\].kernel: 'None' is none"),
        (b'{"format": 1, "kernels": []}', "compiler: 'None' is none"),
    ],
)
def test_what_is_no_manifest(folder: Folder, content: bytes, reason: str) -> None:
    (folder.path / MANIFEST).write_bytes(content)
    with pytest.raises(
        DeviceError, match=f"(?s)manifest.json is no manifest of compiled kernels.*({reason})"
    ):
        folder.ready()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kernel", 7),
        ("architecture", "sm_90a; rm"),
        ("architecture", "sm_9"),
        ("key", "0" * 63),
        ("sha256", "G" * 64),
        ("sha256", ["0" * 64]),
        ("defines", []),
        ("defines", {"THREADS": "256"}),
        ("defines", {"THREADS": True}),
        ("defines", {"THREADS": 1.5}),
        ("defines", {"THREADS": 1 << 63}),
        ("defines", {"A=1 -I/": 1}),
        ("defines", {"\ud800": 1}),
    ],
)
def test_what_is_no_entry(folder: Folder, key: str, value: Any) -> None:
    folder.edit(lambda values: values["kernels"][1].update({key: value}))
    with pytest.raises(DeviceError, match=rf"\(kernels\[1\]\.{key}: ") as failed:
        folder.ready()
    str(failed.value).encode()


def test_a_huge_manifest_is_not_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 1 << 20)
    (folder.path / MANIFEST).write_bytes(b" " * (1 << 20) + b"{}")
    with pytest.raises(DeviceError, match="it is larger than 1 MiB"):
        folder.ready()


@pytest.mark.parametrize("kind", ["nothing", "a folder", "a pipe", "no folder"])
def test_a_folder_without_a_manifest(folder: Folder, kind: str) -> None:
    path = folder.path / MANIFEST
    path.unlink()
    if kind == "a folder":
        path.mkdir()
    if kind == "a pipe":
        os.mkfifo(path)
    place = folder.path / "other" if kind == "no folder" else folder.path
    with pytest.raises(DeviceError, match=r"holds no compiled kernels .*make them with `accel compile"):
        ReadyKernels(place, KernelCache("sm_90a"))


def test_a_folder_that_cannot_be_looked_into(folder: Folder) -> None:
    with pytest.raises(DeviceError, match=r"\(File name too long\); make them anew with `accel compile`"):
        load_manifest(folder.path / ("a" * 300))


def refused(folder: Path) -> str | None:
    try:
        load_manifest(folder)
    except DeviceError as error:
        return str(error)
    return None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TOP = ["format", "compiler", "headers", "kernels"]
ENTRY = ["kernel", "architecture", "defines", "key", "sha256"]


@settings(max_examples=40)
@given(key=st.sampled_from(TOP + ENTRY), value=VALUES)
def test_any_value_is_taken_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-manifest"
    folder.mkdir(exist_ok=True)
    digest = "0" * 64
    one = {"kernel": "relu", "architecture": "sm_90a", "defines": {}, "key": digest, "sha256": digest}
    top: dict[str, Any] = {"format": 1, "compiler": "13.0", "headers": digest, "kernels": [one]}
    (top if key in TOP else one)[key] = value
    (folder / MANIFEST).write_text(json.dumps(top))
    if (refusal := refused(folder)) is not None:
        assert str(folder / MANIFEST) in refusal
        refusal.encode()
