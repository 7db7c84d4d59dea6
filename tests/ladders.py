"""A small ladder for tests: the packaged rungs over a tiny network of one sentence length."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml
from conftest import WORDS

from accel_cli.bench.rungs import PACKAGED
from accel_cli.model.config import load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.golden import make_golden
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary, save_vocabulary

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
