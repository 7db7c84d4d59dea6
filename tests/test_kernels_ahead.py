"""Kernels made ahead of time, and kept: whole commands as processes of their own, on a GPU that is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

NAIVE = """\
name: naive
extends: {tiny}
plan:
  device: cuda
  precision: fp32
  convolution: direct
  experts: separate
  gemm: naive
  epilogue: separate
  launch: stream
"""
KERNELS = {
    *("embedding", "conv1d", "relu", "getmax", "concat", "linear", "softmax", "scale_add", "argmax"),
}


class Machine:
    """A machine with a GPU that is none; `compiled` are the kernels that its NVRTC compiled so far."""

    def __init__(self, folder: Path, tiny: Path) -> None:
        self.folder, self._log = folder, folder / "compiled.log"
        (folder / "naive.yaml").write_text(NAIVE.format(tiny=tiny))
        (folder / "texts.txt").write_bytes(b"a good film\nnot a bad film\n")
        (folder / "labelled.tsv").write_bytes(b"positive\ta good film\nnegative\tnot a good film\n")

    def __call__(
        self, *arguments: str, compiler: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        own = {"ACCEL_CONFIG": str(self.folder / "naive.yaml"), "PYTHONPATH": str(ROOT)}
        nvrtc = {"FAKE_NVRTC_LOG": str(self._log)} if compiler else {}
        cache = {"ACCEL_CACHE_DIR": str(self.folder / "cache")}
        return subprocess.run(
            [sys.executable, ROOT / "tests" / "fake_device.py", *arguments],
            cwd=self.folder,
            env={**os.environ, **own, **nvrtc, **cache, **environment},
            capture_output=True,
            timeout=120,
            check=False,
        )

    def start(self, **plan: Any) -> tuple[dict[str, Any], str]:
        """The report of a start, as `accel info --startup` measures it, and what it said."""
        program = (
            "import time; now = time.monotonic(); import fake_device; from accel_cli.commands.startup import"
            " main; main(now)"
        )
        asked = {"begin": time.monotonic(), "config": "naive.yaml", "device": "auto", "plan": plan}
        own = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "FAKE_NVRTC_LOG": str(self._log)}
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(asked)],
            cwd=self.folder,
            env={**os.environ, **own, "ACCEL_CACHE_DIR": "cache"},
            capture_output=True,
            timeout=120,
            check=True,
        )
        found = json.loads(done.stdout)
        assert all(row["seconds"] >= 0 for row in found["rows"])
        return found, done.stderr.decode()

    def stages(self) -> dict[str, str]:
        """The stages of a start, and their notes."""
        return {row["stage"]: row["note"] for row in self.start()[0]["rows"]}

    @property
    def compiled(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []

    def rows(self, *arguments: str, **settings: Any) -> bytes:
        """What `accel run` makes of the texts."""
        done = self("run", "--input", "texts.txt", *arguments, **settings)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path, tiny_path: Path) -> Machine:
    return Machine(tmp_path, tiny_path)


def test_the_second_start_compiles_nothing(machine: Machine) -> None:
    first = machine.rows()
    assert sorted(machine.compiled) == sorted(KERNELS)
    assert machine.rows(ACCEL_ASSERT_NO_COMPILE="1") == first
    assert len(machine.compiled) == len(KERNELS)


@pytest.mark.extras
def test_ready_kernels_need_no_compiler(machine: Machine) -> None:
    made = machine("compile", "--arch", "sm_90a", "--output", "ready")
    assert made.returncode == 0, made.stderr.decode()
    assert b"sm_90a: 9 kernels" in made.stdout
    assert sorted(machine.compiled) == sorted(KERNELS)  # what the plan launches, and no more
    assert machine.rows(ACCEL_KERNELS="ready", ACCEL_CACHE_DIR="nowhere", compiler=False).count(b"\n") == 2
    assert not (machine.folder / "nowhere" / "kernels").exists()
    manifest = json.loads((machine.folder / "ready" / "manifest.json").read_text())
    assert (manifest["format"], manifest["compiler"]) == (1, "13.0")
    assert {one["kernel"] for one in manifest["kernels"]} == KERNELS
    names = {f"{one['kernel']}-sm_90a-{one['key'][:24]}.cubin" for one in manifest["kernels"]}
    assert names | {"manifest.json"} == {path.name for path in (machine.folder / "ready").iterdir()}
    one = manifest["kernels"][0]
    assert one["options"][0] == "--gpu-architecture=sm_90a"
    assert one["registers"] == 10


@pytest.mark.extras
@pytest.mark.parametrize(
    "words", [("eval", "--input", "labelled.tsv"), ("bench", "--sentences", "64", "--repeats", "1")]
)
def test_the_second_start_of_any_command_compiles_nothing(machine: Machine, words: tuple[str, ...]) -> None:
    for _ in range(2):
        done = machine(*words)
        assert done.returncode == 0, done.stderr.decode()
        assert sorted(machine.compiled) == sorted(KERNELS)


@pytest.mark.extras
def test_the_stages_of_a_start_tell_loading_from_compiling(machine: Machine) -> None:
    first, second = machine.stages(), machine.stages()
    assert [*first][-5:] == ["weights", "layers", "memory", "first batch", "kernels"]
    assert first["device"] == "cuda:0"
    assert first["kernels"] == "9 loaded, 9 of them compiled"
    assert second["kernels"] == "9 loaded, 0 of them compiled"


@pytest.mark.extras
def test_a_start_with_ready_kernels_is_one_that_took_them_all(machine: Machine) -> None:
    assert machine("compile", "--arch", "sm_90a", "--output", "ready").returncode == 0
    found, said = machine.start(kernels="ready")
    assert (found["ready_kernels"], found["kernels_loaded"], said) == (True, 9, "")
    (victim,) = (machine.folder / "ready").glob("relu-*.cubin")
    victim.unlink()
    found, said = machine.start(kernels="ready")
    assert (found["ready_kernels"], found["kernels_loaded"], found["kernels_compiled"]) == (False, 9, 0)
    (line,) = said.splitlines()
    assert line.startswith("accel: kernels in ready are refused: relu (damaged")


@pytest.mark.extras
def test_a_flipped_bit_is_seen_before_the_driver_sees_it(machine: Machine) -> None:
    assert machine("compile", "--arch", "sm_80,sm_90a", "--output", "ready").returncode == 0
    assert sorted(machine.compiled) == sorted([*KERNELS, *KERNELS])
    (victim,) = (machine.folder / "ready").glob("relu-sm_90a-*.cubin")
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    refused = (
        "accel: kernels in ready are refused: relu (damaged: its sha256 is not what the manifest says). They"
        " are compiled where they are needed, if there is a compiler; make them anew with `accel compile`"
    )
    words, other = ("run", "--input", "texts.txt", "--kernels", "ready"), {"ACCEL_CACHE_DIR": "other"}
    failed = machine(*words, compiler=False, **other)
    warning, *_, error = failed.stderr.decode().splitlines()
    assert (failed.returncode, warning) == (1, refused)
    assert error.startswith("Error: kernel relu (THREADS=256) in ready is damaged: its sha256")
    assert "It cannot be compiled here: NVRTC, the compiler of CUDA, cannot be loaded" in error
    done = machine(*words, **other)
    assert done.stderr.decode().splitlines()[0] == refused
    assert done.stdout == machine.rows()
    assert machine.compiled[2 * len(KERNELS) :] == ["relu"]


@pytest.mark.extras
def test_a_folder_is_replaced_when_that_is_asked_for(machine: Machine) -> None:
    folder = machine.folder / "ready"
    assert machine("compile", "--arch", "sm_90a", "--output", "ready").returncode == 0
    names = {path.name for path in folder.glob("*.cubin")}
    again = machine("compile", "--arch", "sm_90a", "--output", "ready")
    assert again.returncode == 1
    assert b"ready exists already; say --overwrite" in again.stderr
    assert machine("compile", "--arch", "sm_80", "--output", "ready", "--overwrite").returncode == 0
    assert not names & {path.name for path in folder.glob("*.cubin")}  # the old ones are gone
