"""`accel serve` as a command: its options, and what it needs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT, Accel

from accel_cli.commands import cli
from accel_cli.errors import AccelError


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    absent = ("uvicorn", "uvloop")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else find(name))
    with pytest.raises(AccelError) as caught:
        cli.main(["serve"], standalone_mode=False)
    assert str(caught.value) == (
        'accel serve needs uvicorn, uvloop, not installed here: in a checkout, say pip install ".[serve]"'
    )


def test_its_help_needs_no_extra() -> None:
    script = (
        "import sys; from accel_cli.commands import cli; cli.main(['serve', '-h'], standalone_mode=False);"
        "print([name for name in ('uvicorn', 'uvloop') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "70000"], "70000 is not in the range"),
        (["--max-inflight", "0"], "0 is not in the range"),
        (["--max-client-batch", "0"], "0 is not in the range"),
        (["--max-queue-delay-us", "-1"], "-1 is not in the range"),
        (["--header-seconds", "0"], "0 is not in the range"),
        (["--log", "xml"], "'xml' is not one of"),
    ],
)
def test_wrong_values(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(cli, ["serve", *arguments])
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-batch-tokens", "5"], "--max-batch-tokens 5: one sentence of this model may have 24 tokens"),
        (["--max-body-bytes", "9"], "--max-body-bytes 9: one text of this model may have 1536 bytes"),
        (["--max-queue-delay-us", "3000000", "--drain-seconds", "1"], "is no shorter than --drain-seconds 1"),
    ],
)
def test_contradictory_limits_refuse_to_start(refused_here: Accel, arguments: list[Any], words: str) -> None:
    done = refused_here("serve", "--port", "0", *arguments)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert b"listening" not in done.stderr


def test_a_configuration_that_is_none(accel: Accel, tmp_path: Path) -> None:
    done = accel("serve", "--port", "0", "--config", tmp_path / "none.yaml")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
