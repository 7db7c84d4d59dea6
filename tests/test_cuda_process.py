"""The command on a real device, as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Accel, clean_environment, needs_gpu

pytestmark = [pytest.mark.gpu, needs_gpu]


def test_run_as_a_process(accel: Accel) -> None:
    lines = b"a good film\n\nnot bad\n" * 500
    cuda = accel("run", "--device", "cuda", "--fields", "label", stdin=lines)
    cpu = accel("run", "--device", "cpu", "--fields", "label", stdin=lines)
    assert cuda.returncode == 0, cuda.stderr.decode()
    assert cuda.stdout == cpu.stdout
    assert cuda.stdout.count(b"\n") == 1500


def test_validate_as_a_process(accel: Accel, tmp_path: Path) -> None:
    golden = tmp_path / "golden.safetensors"
    made = accel("validate", "--make-golden", golden)
    assert made.returncode == 0, made.stderr.decode()
    done = accel("validate", "--golden", golden)
    out = done.stdout.decode()
    assert done.returncode == 0, out + done.stderr.decode()
    assert "device=cpu" in out
    assert "device=cuda:0" in out
    assert "FAIL" not in out


def test_info_as_a_process(accel: Accel) -> None:
    out = accel("info").stdout.decode()
    for words in ("NVIDIA", "capability", "driver", "NVRTC", "cuda:0", "fp16", "folded"):
        assert words in out, out


def test_the_second_start_compiles_nothing(accel: Accel, tmp_path: Path) -> None:
    own = {"ACCEL_CACHE_DIR": str(tmp_path)}
    never = {**own, "ACCEL_ASSERT_NO_COMPILE": "1"}
    call = ("run", "--device", "cuda")
    refused = accel(*call, stdin=b"good\n", environment=never)
    assert refused.returncode == 1
    assert b"would be compiled now" in refused.stderr
    assert accel(*call, stdin=b"good\n", environment=own).returncode == 0
    again = accel(*call, stdin=b"good\n", environment=never)
    assert again.returncode == 0, again.stderr.decode()


ILLEGAL = """
import sys
import numpy as np
from accel_cli.batches import TokenBatch
from accel_cli.text import tokenizer

def encode(self, lines):
    ids = np.full(5 * len(lines), 2**30, np.int32)
    offsets = np.arange(len(lines) + 1, dtype=np.int32) * 5
    nothing = np.zeros(len(lines), bool)
    return tokenizer.Encoded(TokenBatch(ids, offsets), nothing, nothing)

tokenizer.Tokenizer.encode = encode
sys.argv = ["accel", "run", "--device", "cuda", "--fields", "text,label"]  # which takes the host
from accel_cli.commands import main
main()
"""


def test_a_lost_device_is_one_clear_line(tiny_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ILLEGAL],
        input=b"good\n" * 1000,
        capture_output=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**clean_environment(tiny_path), "ACCEL_BATCH": "100"},
    )
    error = done.stderr.decode()
    assert done.returncode == 1, error
    assert "CUDA failed while" in error
    assert "--device cpu" in error
    assert "Traceback" not in error
    assert error.count("Error:") == 1
