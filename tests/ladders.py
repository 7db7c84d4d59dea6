"""A small ladder for tests: the packaged rungs over a tiny network of one sentence length."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import fake_cupy
import fake_streams
import pytest
import yaml
from conftest import WORDS

from accel_cli.bench import ceiling, ladder, ladder_report
from accel_cli.bench.ceiling import Ceiling
from accel_cli.bench.rungs import PACKAGED
from accel_cli.cuda import device
from accel_cli.engines import cuda
from accel_cli.model.config import load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import make_golden
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary, save_vocabulary

WHOLE = frozenset(range(19))
MODEL: dict[str, Any] = {
    "vocabulary": "vocabulary.txt",
    "vocabulary_size": 40,
    "length": 6,
    "embedding": 16,
    "widths": [2, 3],
    "filters": 8,
    "experts": 4,
    "expert_hidden": 8,
    "fully_connected": [8, 2],
    "labels": ["negative", "positive"],
    "weights": {"seed": 7},
    "golden": "golden.safetensors",
}


def make_ladder(root: Path) -> Path:
    """Its folder; batches of 4 and two streams where the packaged ones have more."""
    save_vocabulary(root / "vocabulary.txt", WORDS + [b"w%d" % i for i in range(38 - len(WORDS))])
    write(root / "school.yaml", {"name": "school", "model": MODEL})
    spec = load_config(root / "school.yaml").model
    texts = [b"good film w%d not bad" % i for i in range(5)]
    vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
    batch = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens).encode(texts).batch
    make_golden(root / "golden.safetensors", spec, obtain_weights(spec), texts, batch)
    shutil.copytree(PACKAGED, root / "ladder")
    for path in (root / "ladder").iterdir():
        values = yaml.safe_load(path.read_text())
        values["plan"]["batch"] = min(values["plan"]["batch"], 4)
        values["plan"]["streams"] = min(values["plan"]["streams"], 2)
        write(path, values)
    return root / "ladder"


def write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(values))


def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that is none: its kernels run on the CPU."""
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy.module())
    monkeypatch.setattr(device, "missing", lambda: None)
    monkeypatch.setattr(cuda, "Launcher", fake_cupy.Launcher)
    monkeypatch.setattr(ceiling, "Launcher", fake_cupy.Launcher)
    fake_streams.fake_driver(monkeypatch)
    monkeypatch.setattr(ladder, "compile_all", lambda *values: None)
    monkeypatch.setattr(ladder, "measure_ceiling", lambda index: Ceiling("abacus", 8, 1e9, 1e9))
    monkeypatch.setattr(ladder_report, "provenance", lambda gpu, programs: {})
