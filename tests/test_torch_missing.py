"""accel_cli.torch where PyTorch is not installed."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT

PROGRAM = """
import sys
sys.modules["torch"] = None  # as if it were not there
try:
    import accel_cli.torch
except ImportError as error:
    from accel_cli.errors import UsageError
    assert isinstance(error, UsageError)
    print(error)
"""


def test_the_error_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert done.stdout.startswith("accel_cli.torch needs PyTorch (")
    assert done.stdout.endswith('): in a checkout, say pip install ".[torch]"\n')
