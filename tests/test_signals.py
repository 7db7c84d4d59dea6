"""Ctrl-C, SIGTERM and kill -9: what is written is whole, and the exit code says what happened."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT, command

from accel_cli.commands.signals import Interruptions

Start = Callable[..., "subprocess.Popen[bytes]"]
LINES = 400_000


def no_signal_ignored() -> None:
    """Undo what a shell does to jobs in the background, the tests among them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    no_signal_ignored()
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.fixture
def start(tiny_path: Path) -> Iterator[Start]:
    """Start `accel run` with small batches."""
    started = []

    def call(*arguments: str | Path) -> subprocess.Popen[bytes]:
        line = command("run", "--config", tiny_path, "--batch", "64", "--fields", "text,label", *arguments)
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            line, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, preexec_fn=no_signal_ignored
        )
        started.append(process)
        return process

    yield call
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that takes seconds; each line says which it is."""
    path = tmp_path_factory.mktemp("many") / "many.txt"
    path.write_bytes(b"".join(b"%d good film\n" % number for number in range(LINES)))
    return path


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
    assert process.wait(30) == code
    check_prefix(rows + rest, said)
    assert "Traceback" not in said


@SIGNALS
def test_in_the_middle_of_the_work(start: Start, many: Path, number: int, code: int) -> None:
    process = start("--input", many)
    assert process.stdout is not None
    rows = process.stdout.read(1)
    process.send_signal(number)
    rest, said = process.communicate(timeout=30)
    assert process.returncode == code
    check_prefix(rows + rest, said.decode())
    assert len(rest.splitlines()) < LINES
    assert b"Traceback" not in said


def test_a_reader_that_stands_still(start: Start, many: Path) -> None:
    """The first Ctrl-C waits for the row that is being written; the second does not."""
    process = start("--input", many)
    assert process.stdout is not None
    rows = process.stdout.read(1)
    pipe = process.stdout.fileno()
    wait_until_full(pipe)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    while piece := os.read(pipe, 1 << 20):
        rows += piece
    assert rows.startswith(b"0 good film\t")


def wait_until_full(pipe: int) -> None:
    """Until a pipe that nobody reads takes no more; then the writer soon waits."""
    with open(f"/proc/self/fd/{pipe}", "wb", buffering=0) as other_end:
        while select.select([], [other_end], [], 0)[1]:
            time.sleep(0.01)
    time.sleep(0.2)


@SIGNALS
def test_an_output_file_does_not_appear(
    start: Start, many: Path, tmp_path: Path, number: int, code: int
) -> None:
    path = tmp_path / "out.tsv"
    process = start("--input", many, "--output", path)
    wait_for_rows(tmp_path, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert list(tmp_path.iterdir()) == []
    assert f"rows; {path} was not written" in said.decode()
    assert b"Traceback" not in said


def test_kill_9_leaves_no_file_of_that_name(start: Start, many: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    process = start("--input", many, "--output", path)
    wait_for_rows(tmp_path, process)
    process.kill()
    process.wait()
    assert not path.exists()
    process = start("--output", path)  # and the next run is not held up
    process.communicate(b"0 good\n", timeout=30)
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
    _, said = process.communicate(timeout=30)
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
