"""Ctrl-C, SIGTERM and kill -9: what is written is whole, and the exit code says what happened."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker, util
from pathlib import Path
from typing import IO, Any

import pytest
from conftest import ROOT, command, no_signal_ignored

from accel_cli.commands.signals import Interruptions
from accel_cli.spawn import Child

Start = Callable[..., "subprocess.Popen[bytes]"]
LINES = 400_000
PATIENCE = 120.0  # seconds for what takes some on a machine with nothing else to do


@pytest.fixture
def handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.fixture
def start(tiny_path: Path) -> Iterator[Start]:
    """Start `accel run` with small batches."""
    started = []

    def call(*arguments: str | Path, stdin: int | IO[bytes] = subprocess.PIPE) -> subprocess.Popen[bytes]:
        line = command("run", "--config", tiny_path, "--batch", "64", "--fields", "text,label", *arguments)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            line, cwd=ROOT, stdin=stdin, stdout=pipe, stderr=pipe, bufsize=0, preexec_fn=no_signal_ignored
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose rows no pipe holds; each line says which it is."""
    path = tmp_path_factory.mktemp("many") / "many.txt"
    path.write_bytes(b"".join(b"%d good film\n" % number for number in range(LINES)))
    return path


@pytest.fixture
def endless() -> Iterator[IO[bytes]]:
    """Lines without end, so that a run that has them is at work when a signal comes."""
    with subprocess.Popen(["yes", "good film"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.stdout
        process.kill()


def check_prefix(rows: bytes, said: str) -> None:
    """The rows are the first ones, without a gap, whole, and as many as was said."""
    lines = rows.split(b"\n")
    assert lines.pop() == b""
    assert [line.split(b" ")[0] for line in lines] == [b"%d" % number for number in range(len(lines))]
    assert all(line.split(b"\t")[1] in (b"negative", b"positive") for line in lines)
    assert f"accel: stopped early; {len(lines)} rows were written, all of them whole" in said.splitlines()


SIGNALS = pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)


@SIGNALS
def test_while_waiting_for_a_slow_pipe(start: Start, number: int, code: int) -> None:
    process = start()
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"0 good\n1 bad\n")
    rows = process.stdout.readline() + process.stdout.readline()  # hangs if answers wait for more input
    process.stdin.write(b"half a line")
    process.send_signal(number)
    rest, said = process.stdout.read(), process.stderr.read().decode()
    assert process.wait(PATIENCE) == code
    check_prefix(rows + rest, said)
    assert "Traceback" not in said


@SIGNALS
def test_in_the_middle_of_the_work(start: Start, many: Path, number: int, code: int) -> None:
    process = start("--input", many)
    assert process.stdout is not None
    rows = process.stdout.read(1)
    process.send_signal(number)
    rest, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    check_prefix(rows + rest, said.decode())
    assert len(rest.splitlines()) < LINES
    assert b"Traceback" not in said


def test_a_reader_that_stands_still(start: Start, many: Path) -> None:
    """The first signal waits for the rows that are being written; the second does not."""
    process = start("--input", many, "--batch", "16384")  # whose rows are more than a pipe holds
    assert process.stdout is not None
    rows = process.stdout.read(1)
    pipe = process.stdout.fileno()
    wait_until_full(pipe)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    assert ended(process, signal.SIGTERM) == 143  # two of a kind may arrive as one
    while piece := os.read(pipe, 1 << 20):
        rows += piece
    assert rows.startswith(b"0 good film\t")


def ended(process: subprocess.Popen[bytes], number: int) -> int:
    """The exit code after a signal; another one where a thread took it as the main one began to wait."""
    for _ in range(8):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(PATIENCE / 8)
    pytest.fail(f"signal {number} does not end it")


def wait_until_full(pipe: int) -> None:
    """Until a pipe that nobody reads takes no more."""
    with open(f"/proc/self/fd/{pipe}", "wb", buffering=0) as other_end:
        while select.select([], [other_end], [], 0)[1]:
            time.sleep(0.01)


@SIGNALS
def test_an_output_file_does_not_appear(
    start: Start, endless: IO[bytes], tmp_path: Path, number: int, code: int
) -> None:
    path = tmp_path / "out.tsv"
    process = start("--output", path, stdin=endless)
    wait_for_rows(tmp_path, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert f"rows; {path} was not written" in said.decode()
    assert b"Traceback" not in said


def test_kill_9_leaves_no_file_of_that_name(start: Start, endless: IO[bytes], tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    process = start("--output", path, stdin=endless)
    wait_for_rows(tmp_path, process)
    process.kill()
    process.wait()
    assert not path.exists()
    process = start("--output", path)  # and the next run is not held up
    process.communicate(b"0 good\n", timeout=PATIENCE)
    assert process.returncode == 0
    assert len(path.read_bytes().splitlines()) == 1


def wait_for_rows(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the file that is written beside the output holds something."""
    while process.poll() is None and not sum(entry.stat().st_size for entry in folder.iterdir()):
        time.sleep(0.01)
    assert process.poll() is None


@SIGNALS
def test_a_command_that_has_no_rows(tiny_path: Path, tmp_path: Path, number: int, code: int) -> None:
    """`accel bench`, which is ended while its file of figures is open."""
    work = ("--sentences", "50", "--repeats", "1000000")
    line = command("bench", "--config", tiny_path, *work, "--json", tmp_path / "a.json")
    process = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, preexec_fn=no_signal_ignored)
    assert process.stderr is not None
    while b"timing" not in process.stderr.readline():
        assert process.poll() is None
    assert len(list(tmp_path.iterdir())) == 1
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert b"Traceback" not in said


def test_ctrl_c_while_modules_load() -> None:
    script = (
        "import sys, runpy\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "runpy.run_module('accel_cli', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


# Within this process


@pytest.mark.usefixtures("handlers")
def test_a_signal_waits_for_what_is_held() -> None:
    done = []

    def work() -> None:
        with Interruptions() as interruptions, interruptions.held():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]


@pytest.mark.usefixtures("handlers")
def test_the_second_signal_does_not_wait() -> None:
    done = []

    def work() -> None:
        with Interruptions() as interruptions, interruptions.held():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            done.append("never")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == []


@pytest.mark.usefixtures("handlers")
def test_outside_of_what_is_held_a_signal_acts_at_once() -> None:
    with Interruptions() as interruptions:
        with interruptions.held():
            pass
        with pytest.raises(SystemExit) as leaving:
            signal.raise_signal(signal.SIGTERM)
        assert leaving.value.code == 143


@pytest.mark.usefixtures("handlers")
def test_the_handlers_from_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruptions():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.usefixtures("handlers")
def test_an_ignored_signal_stays_ignored() -> None:
    """So it is for a job in the background, which the Ctrl-C of its terminal must not reach."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interruptions():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("handlers")
def test_a_process_starts_as_a_whole_when_a_signal_comes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Else it would read half of what it is told, and say so."""
    begin = util.spawnv_passfds

    def interrupted(*arguments: Any) -> int:
        number = begin(*arguments)
        _thread.interrupt_main()
        return number

    resource_tracker.ensure_running()
    monkeypatch.setattr(util, "spawnv_passfds", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Child(print, "whole")
    for process in multiprocessing.active_children():
        process.join(PATIENCE)
    assert capfd.readouterr() == ("whole\n", "")
