"""The cache of compiled kernels, with a compiler that only counts."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, ours

from accel_cli import resources
from accel_cli.cuda import cache as module
from accel_cli.cuda.cache import KernelCache, sources_digest
from accel_cli.cuda.compiler import Usage
from accel_cli.errors import AccelWarning, DeviceError

DEFINES = (("THREADS", 256),)


class Compiler:
    """Compiles anything, and counts."""

    def __init__(self, sources: Path) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.version = "13.0"
        self.sources = sources

    def get(self, architecture: str = "sm_90a", name: str = "relu", defines: Any = DEFINES) -> Path:
        """The entry of a kernel, from a cache as a new process opens it."""
        return KernelCache(architecture, self.sources).cubin(name, defines)

    def compile_kernel(self, name: str, flags: tuple[str, ...], sources: Path) -> tuple[bytes, str]:
        assert sources == self.sources
        self.calls.append((name, flags))
        log = "ptxas info    : Used 17 registers, 12 bytes smem"
        return f"cubin of {name} with {flags}".encode(), log


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    """A counting compiler, an empty cache and a copy of kernels_cu/ that a test may change."""
    made = Compiler(Path(shutil.copytree(resources.KERNELS, tmp_path / "kernels")))
    monkeypatch.setattr(module, "compile_kernel", made.compile_kernel)
    monkeypatch.setattr(module, "compiler_version", lambda: made.version)
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ACCEL_ASSERT_NO_COMPILE", raising=False)
    return made


def test_the_second_use_compiles_nothing(compiler: Compiler, tmp_path: Path) -> None:
    path = compiler.get()
    assert path.is_relative_to(tmp_path / "cache" / "kernels")
    assert path.read_bytes().startswith(b"cubin of relu")
    assert compiler.get() == path
    assert len(compiler.calls) == 1


def test_what_a_kernel_takes_is_kept_beside_it(compiler: Compiler) -> None:
    made, kept = (KernelCache("sm_90a", compiler.sources).entry("relu", DEFINES) for _ in range(2))
    assert made == kept
    assert kept.usage == Usage(registers=17, shared_bytes=12, stack_bytes=0, spill_bytes=0)
    assert kept.sha256 == hashlib.sha256(kept.path.read_bytes()).hexdigest()


def test_compilations_are_counted(compiler: Compiler) -> None:
    cache = KernelCache("sm_90a", compiler.sources)
    for name in ("relu", "argmax", "relu"):
        cache.cubin(name, DEFINES)
    assert cache.compiled == 2


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "sm_80"},
        {"architecture": "sm_90"},
        {"name": "argmax"},
        {"defines": (("THREADS", 128),)},
        {"defines": ()},
        {"defines": (("THREADS", 256), ("MORE", 1))},
    ],
)
def test_every_variant_has_its_own_entry(compiler: Compiler, change: dict[str, Any]) -> None:
    assert compiler.get() != compiler.get(**change)
    assert len(compiler.calls) == 2


def edit(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b"\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: edit(folder, "relu.cu"),
        lambda folder: edit(folder, "common.cuh"),
        lambda folder: edit(folder, "softmax.cu"),
        lambda folder: (folder / "new.cuh").write_bytes(b""),
        lambda folder: (folder / "common.cuh").unlink(),
        lambda folder: (folder / "common.cuh").rename(folder / "other.cuh"),
    ],
)
def test_any_change_of_the_sources_compiles_again(compiler: Compiler, change: Callable[[Path], Any]) -> None:
    first, before = compiler.get(), sources_digest(compiler.sources)
    change(compiler.sources)
    assert sources_digest(compiler.sources) != before
    assert compiler.get() != first
    assert len(compiler.calls) == 2


def test_moving_bytes_between_files_is_a_change(compiler: Compiler) -> None:
    for name, content in (("a.cuh", b"12"), ("b.cuh", b"3")):
        (compiler.sources / name).write_bytes(content)
    before = sources_digest(compiler.sources)
    for name, content in (("a.cuh", b"1"), ("b.cuh", b"23")):
        (compiler.sources / name).write_bytes(content)
    assert sources_digest(compiler.sources) != before


def test_files_that_are_no_sources_do_not_count(compiler: Compiler) -> None:
    before = sources_digest(compiler.sources)
    (compiler.sources / "notes.md").write_bytes(b"x")
    assert sources_digest(compiler.sources) == before


def test_another_compiler_compiles_again(compiler: Compiler) -> None:
    first = compiler.get()
    compiler.version = "13.1"
    assert compiler.get() != first


def checksum(path: Path) -> Path:
    return path.with_suffix(".json")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]),
        lambda path: path.unlink(),
        lambda path: checksum(path).unlink(),
        lambda path: checksum(path).write_bytes(b""),
        lambda path: checksum(path).write_bytes(b"0" * 64),
        lambda path: checksum(path).write_bytes(b"[]"),
        lambda path: checksum(path).write_bytes(b'{"sha256": 1}'),
        lambda path: checksum(path).write_bytes(checksum(path).read_bytes().replace(b"registers", b"more")),
        lambda path: checksum(path).write_bytes(b"[" * 100_000),
    ],
)
def test_a_damaged_entry_is_made_again(compiler: Compiler, damage: Callable[[Path], Any]) -> None:
    path = compiler.get()
    whole = path.read_bytes()
    damage(path)
    assert compiler.get() == path
    assert path.read_bytes() == whole
    assert compiler.get() == path
    assert len(compiler.calls) == 2


def test_a_compiler_that_fails_leaves_no_entry(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, *_: Any) -> tuple[bytes, str]:
        raise DeviceError(f"kernel {name} does not compile")

    monkeypatch.setattr(module, "compile_kernel", broken)
    cache = KernelCache("sm_90a", compiler.sources)
    with pytest.raises(DeviceError, match="kernel relu does not compile"):
        cache.cubin("relu", DEFINES)
    assert list(cache.folder.iterdir()) == []


def test_a_full_disk(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache = KernelCache("sm_90a", compiler.sources)
    with pytest.raises(
        DeviceError, match=r"cannot write the kernel cache .* \(No space left on device\); make room"
    ):
        cache.cubin("relu", DEFINES)
    assert list(cache.folder.iterdir()) == []


def test_a_cache_that_goes_away(compiler: Compiler) -> None:
    cache = KernelCache("sm_90a", compiler.sources)
    shutil.rmtree(cache.folder)
    with pytest.raises(DeviceError, match=r"cannot write the kernel cache .*ACCEL_CACHE_DIR"):
        cache.cubin("relu", DEFINES)


def test_compiling_can_be_forbidden(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler.get()
    monkeypatch.setenv("ACCEL_ASSERT_NO_COMPILE", "1")
    compiler.get()
    with pytest.raises(
        DeviceError, match="kernel argmax would be compiled now, but ACCEL_ASSERT_NO_COMPILE=1"
    ):
        compiler.get(name="argmax")
    assert len(compiler.calls) == 1


def test_an_unwritable_folder_gives_a_temporary_one_and_a_warning(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cache = KernelCache("sm_90a", compiler.sources)
    with pytest.warns(AccelWarning) as said:
        assert cache.folder.is_dir()
    [warning] = ours(said)
    assert f"cannot write to the cache folder {tmp_path / 'file' / 'kernels'}" in warning
    assert f"using {cache.folder}" in warning
    assert "Set ACCEL_CACHE_DIR" in warning
    assert cache.folder.parent == tmp_path
    assert cache.cubin("relu", DEFINES).exists()


def test_a_writable_folder_gives_no_warning(compiler: Compiler) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiler.get()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ACCEL_CACHE_DIR": "/a/b"}, "/a/b"),
        ({"ACCEL_CACHE_DIR": "~/b", "HOME": "/h"}, "/h/b"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/accel"),
        ({"HOME": "/h"}, "/h/.cache/accel"),
        ({"ACCEL_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/accel"),
    ],
)
def test_where_the_cache_lies(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str
) -> None:
    for name in ("ACCEL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert resources.cache_folder() == Path(expected)


def test_a_home_that_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ACCEL_CACHE_DIR", "~nobody-of-that-name/cache")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.warns(AccelWarning, match="the home folder is unknown"):
        folder = resources.writable_cache("kernels")
    assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == [folder]


RACE = """
import sys, time
sys.path.insert(0, sys.argv[1])
from accel_cli.cuda import cache

def compile_kernel(name, flags, sources):
    time.sleep(0.1)
    return bytes(3_000_000), ""

cache.compile_kernel, cache.compiler_version = compile_kernel, lambda: "13.0"
for round in range(5):
    path = cache.KernelCache("sm_90a").cubin("relu", (("ROUND", round),))
    assert path.read_bytes() == bytes(3_000_000), "half an entry"
print("whole")
"""


def test_two_processes_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "ACCEL_CACHE_DIR": str(tmp_path)}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(ROOT)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for _ in range(2)
    ]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert out == b"whole\n", err.decode()
    names = sorted(path.suffix for path in (tmp_path / "kernels").iterdir())
    assert names == [".cubin"] * 5 + [".json"] * 5
