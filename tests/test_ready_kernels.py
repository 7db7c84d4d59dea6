"""Kernels from a folder: what is sound is loaded, and what is not is refused by name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ours
from kernel_folders import ARGMAX, RELU, Folder, folder_of_kernels

from accel_cli.cuda import ready as module
from accel_cli.cuda.ready import ReadyKernels, runs_on
from accel_cli.errors import AccelWarning, DeviceError


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Folder:
    return folder_of_kernels(monkeypatch, tmp_path)


def silent(folder: Folder, architecture: str = "sm_90a") -> ReadyKernels:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return folder.ready(architecture)


def test_what_is_sound_is_loaded_without_a_compiler(folder: Folder) -> None:
    folder.compiler = False
    ready = silent(folder)
    for variant in (RELU, ARGMAX):
        assert ready.cubin(*variant) == folder.file(variant[0])
    assert folder.compiled == []


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3] ^= 0x40
    path.write_bytes(content)


def stale(folder: Folder) -> None:
    folder.edit(lambda values: values["kernels"][0].update(key="0" * 64))


DAMAGE: dict[str, tuple[Callable[[Folder], Any], str]] = {
    "a flipped bit": (lambda folder: flip(folder.file("relu")), "damaged: its sha256 is not"),
    "cut short": (lambda folder: os.truncate(folder.file("relu"), 5), "damaged"),
    "gone": (lambda folder: folder.file("relu").unlink(), "damaged"),
    "of other sources": (stale, "stale: kernels_cu/ or the compiler's options have changed"),
}


def damage(folder: Folder, way: str) -> str:
    """Spoil the kernel relu; the reason that is expected."""
    DAMAGE[way][0](folder)
    return DAMAGE[way][1]


@pytest.mark.parametrize("way", DAMAGE)
def test_what_is_not_sound_is_refused_by_name_and_compiled(folder: Folder, way: str) -> None:
    reason = damage(folder, way)
    with pytest.warns(AccelWarning) as said:
        ready = folder.ready()
    (warning,) = ours(said)
    assert f"kernels in {folder.path} are refused: relu ({reason}" in warning
    assert "argmax" not in warning
    assert "accel compile" in warning
    assert folder.compiled == []  # perhaps nobody needs it
    assert ready.cubin(*RELU).read_bytes().startswith(b"cubin of relu")
    assert ready.cubin(*ARGMAX) == folder.file("argmax")
    assert folder.compiled == ["relu"]


@pytest.mark.parametrize("way", DAMAGE)
def test_without_a_compiler_that_is_an_error_of_whoever_needs_it(folder: Folder, way: str) -> None:
    reason, folder.compiler = damage(folder, way), False
    with pytest.warns(AccelWarning):
        ready = folder.ready()
    assert ready.cubin(*ARGMAX) == folder.file("argmax")
    with pytest.raises(DeviceError) as failed:
        ready.cubin(*RELU)
    words = str(failed.value)
    assert words.startswith(f"kernel relu (THREADS=256) in {folder.path} is {reason}")
    assert "It cannot be compiled here: NVRTC, the compiler of CUDA, cannot be loaded" in words
    assert "`accel compile`" in words


def test_what_is_damaged_later_is_refused_when_it_is_loaded(folder: Folder) -> None:
    ready = silent(folder)
    flip(folder.file("relu"))
    with pytest.warns(AccelWarning) as said:
        found = ready.cubin(*RELU)
    (warning,) = ours(said)
    assert f"kernels in {folder.path} are refused: relu (damaged" in warning
    assert found.read_bytes().startswith(b"cubin of relu")
    assert folder.compiled == ["relu"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        assert ready.cubin(*RELU) == found


def test_what_is_damaged_later_is_an_error_without_a_compiler(folder: Folder) -> None:
    ready, folder.compiler = silent(folder), False
    folder.file("relu").unlink()
    words = rf"kernel relu \(THREADS=256\) in {folder.path} is damaged: .* It cannot be compiled here: NVRTC"
    with pytest.warns(AccelWarning, match=r"relu \(damaged"), pytest.raises(DeviceError, match=words):
        ready.cubin(*RELU)


def test_changed_sources_make_all_stale(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sources_digest", lambda *folders: "other")
    with pytest.warns(AccelWarning, match=r"are refused: argmax, relu \(stale: kernels_cu/ or "):
        ready = folder.ready()
    ready.cubin(*RELU)
    assert folder.compiled == ["relu"]


def test_another_architecture_is_foreign(folder: Folder) -> None:
    with pytest.warns(AccelWarning, match=r"argmax, relu \(foreign: for sm_90a, and this device is sm_80\)"):
        ready = folder.ready("sm_80")
    assert ready.cubin(*RELU).name.startswith("relu-sm_80-")


def test_each_device_takes_its_own(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.make(RELU, architectures=("sm_80", "sm_90a"))
    folder.compiler = False
    for architecture, built in (("sm_80", "sm_80"), ("sm_89", "sm_80"), ("sm_90a", "sm_90a")):
        assert silent(folder, architecture).cubin(*RELU).name.startswith(f"relu-{built}-")


@pytest.mark.parametrize(
    ("built", "device", "runs"),
    [
        ("sm_80", "sm_80", True),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90a", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90", "sm_90a", True),
        ("sm_100", "sm_100a", True),
        ("sm_100", "sm_103a", True),
        ("sm_100a", "sm_103a", False),
        ("sm_100", "sm_120a", False),
    ],
)
def test_which_devices_run_a_cubin(built: str, device: str, runs: bool) -> None:
    assert runs_on(built, device) == runs


def test_a_kernel_that_is_not_there(folder: Folder) -> None:
    ready = silent(folder)
    with pytest.warns(AccelWarning) as said:
        ready.cubin("relu", (("THREADS", 32),))
    assert set(ours(said)) == {
        f"{folder.path} does not have all kernels of this plan. They are compiled where they are needed, if"
        " there is a compiler; make them anew with `accel compile`"
    }
    folder.compiler = False
    with pytest.raises(DeviceError, match=r"kernel relu \(THREADS=8\) in .* is not there\. It cannot be"):
        ready.cubin("relu", (("THREADS", 8),))


def test_what_a_link_leads_to_is_checked_like_a_file(folder: Folder) -> None:
    path = folder.file("relu")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.warns(AccelWarning, match=r"relu \(damaged"):
        folder.ready()


def test_a_file_too_large_for_a_cubin_is_not_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 10)
    with pytest.warns(AccelWarning, match=r"argmax, relu \(damaged"):
        folder.ready()
