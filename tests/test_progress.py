"""The progress bar: on a terminal, and there alone."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, command


def on_terminal(tiny_path: Path, *arguments: str | Path, **streams: Any) -> tuple[int, str]:
    """Run `accel run` with stderr, and the streams given as "terminal", on a terminal; what it showed."""
    master, terminal = pty.openpty()
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **streams}
    process = subprocess.Popen(
        command("run", "--config", tiny_path, *arguments),
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        stderr=terminal,
        **{name: terminal if stream == "terminal" else stream for name, stream in given.items()},
    )
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:  # Linux says so when the last writer has gone
        pass
    os.close(master)
    return process.wait(120), shown.decode()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good film\n" * 300)
    return path


def test_a_terminal_shows_a_bar_and_the_summary(tiny_path: Path, tmp_path: Path, text: Path) -> None:
    for arguments in (("--input", text), ("--input", text, "--output", tmp_path / "out.tsv")):
        code, shown = on_terminal(tiny_path, *arguments)
        assert code == 0
        assert "300 sentences, " in shown
        assert "/s" in shown
        assert "━" in shown
        assert "accel: 300 sentences in" in shown


def test_a_stream_of_unknown_length(tiny_path: Path, text: Path) -> None:
    with text.open("rb") as file:
        code, shown = on_terminal(tiny_path, stdin=file)
    assert code == 0
    assert "300 sentences, " in shown


def test_no_bar_among_rows_on_the_same_terminal(tiny_path: Path, text: Path) -> None:
    code, shown = on_terminal(tiny_path, "--input", text, stdout="terminal")
    assert code == 0
    assert "\x1b" not in shown
    assert sum(line.startswith(("negative\t", "positive\t")) for line in shown.splitlines()) == 300


def test_no_bar_in_a_pipe(tiny_path: Path, text: Path) -> None:
    line = command("run", "--config", tiny_path, "--input", text)
    result = subprocess.run(line, cwd=ROOT, capture_output=True, check=True)
    assert b"\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) == 4


def test_an_error_comes_after_the_bar(tiny_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "good"}\n{\n')
    code, shown = on_terminal(tiny_path, "--input", path, "--batch", "1")
    assert code == 1
    assert "in.jsonl:2: not valid JSON" in shown.rpartition("\x1b")[2]


def test_a_terminal_as_stdin_is_no_input(tiny_path: Path) -> None:
    code, shown = on_terminal(tiny_path, stdin="terminal")
    assert code == 2
    assert "nothing to classify; name a file with --input, or pipe text in" in shown
