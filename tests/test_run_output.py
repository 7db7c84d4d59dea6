"""Outputs that fail: readers that have enough, full disks, closed streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from disks import mounted

Here = Callable[..., bytes]


LINES = 8_000  # whose rows are more than a pipe or the small disk holds


def feed(tiny_path: Path, redirect: str, data: str = f"yes good film | head -{LINES}") -> list[str]:
    """A shell pipeline around `accel run`; the exit codes of its parts and what stood on stderr."""
    line = f"{data} | {sys.executable} -m accel_cli run --batch 64 {redirect}; echo ${{PIPESTATUS[*]}} >&2"
    environment = {**os.environ, "ACCEL_CONFIG": str(tiny_path)}
    result = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False
    )
    return result.stderr.decode().splitlines()


def test_a_reader_that_has_enough(tiny_path: Path) -> None:
    *said, codes = feed(tiny_path, "| head -1 >/dev/null")
    assert codes.split()[2:] == ["0", "0"]
    assert len(said) == 1  # the plan, and nothing of the pipe
    assert said[0].startswith("accel: device=cpu")


def test_a_reader_of_both_streams_that_has_enough(tiny_path: Path) -> None:
    assert feed(tiny_path, "2>&1 | head -2 >/dev/null")[-1].split()[2:] == ["0", "0"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("redirect", [">/dev/full", "--output /dev/full"])
def test_a_full_device(tiny_path: Path, redirect: str) -> None:
    *said, codes = feed(tiny_path, redirect)
    assert codes.split()[-1] == "1"
    name = "/dev/full" if "--output" in redirect else "stdout"
    assert said[1:] == [
        f"Error: cannot write to {name}: No space left on device; free some space or name another file"
    ]


def test_an_output_beyond_the_limit_of_a_file(tiny_path: Path, tmp_path: Path) -> None:
    data = f"ulimit -f 8; yes good film | head -{LINES}"
    *said, codes = feed(tiny_path, f"--output {tmp_path}/out.tsv", data)
    assert codes.split()[-1] == "1"
    assert said[1:] == [
        f"Error: cannot write to {tmp_path}/out.tsv: File too large; raise its limit (`ulimit -f`) or name"
        " another file"
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["info --device cpu", "--help"])
def test_a_full_stdout_of_a_command_that_prints(words: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "accel_cli", *words.split()],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        b"Error: cannot write the output: No space left on device; free some space or send it elsewhere\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_stderr_costs_no_rows(tiny_path: Path, tmp_path: Path) -> None:
    assert feed(tiny_path, f"2>/dev/full >{tmp_path}/out.tsv")[-1].split()[-1] == "0"
    assert len((tmp_path / "out.tsv").read_bytes().splitlines()) == LINES


def test_closed_streams(tiny_path: Path, tmp_path: Path) -> None:
    said = feed(tiny_path, ">&-")
    assert said == ["Error: stdout is closed; name a file with --output", said[-1]]
    assert said[-1].split()[-1] == "1"
    said = feed(tiny_path, "--input - <&-")
    assert said[0] == "Error: stdin is closed; name a file with --input"
    assert feed(tiny_path, f"2>&- >{tmp_path}/out.tsv")[-1].split()[-1] == "0"
    assert len((tmp_path / "out.tsv").read_bytes().splitlines()) == LINES


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    with mounted(tmp_path / "disk", "64k") as folder:
        yield folder


def test_a_full_disk(tiny_path: Path, small_disk: Path) -> None:
    (small_disk / "out.tsv").write_text("old")
    *said, codes = feed(tiny_path, f"--output {small_disk}/out.tsv --overwrite")
    assert codes.split()[-1] == "1"
    assert said[1:] == [
        f"Error: cannot write to {small_disk}/out.tsv: No space left on device; free some space or name"
        " another file"
    ]
    assert [entry.name for entry in small_disk.iterdir()] == ["out.tsv"]
    assert (small_disk / "out.tsv").read_text() == "old"


def test_a_full_disk_cuts_no_row_out_of_the_middle(tiny_path: Path, small_disk: Path) -> None:
    feed(tiny_path, f"--fields text,label >{small_disk}/out.tsv", f"seq {LINES}")
    rows = (small_disk / "out.tsv").read_bytes().split(b"\n")
    numbers = [row.split(b"\t")[0] for row in rows[:-1]]
    assert numbers == [b"%d" % number for number in range(1, len(rows))]
