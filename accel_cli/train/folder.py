"""A model's folder: model.yaml, weights, vocabulary, golden outputs, report; whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from accel_cli import resources
from accel_cli.errors import OutputError
from accel_cli.model.config import MODEL_FILE, Config, load_config
from accel_cli.model.golden import make_golden
from accel_cli.model.weights import Tensors, load_weights, save_weights
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary
from accel_cli.text.writers import is_there

SENTENCES = resources.WEIGHTS / "sentences.txt"
_NOTE = "# Made by `accel train`; the folder may be moved. report.json says how good it is.\n"


def check_free(path: Path, overwrite: bool, mark: str = MODEL_FILE, kind: str = "model") -> None:
    """Refuse a folder that exists; with `overwrite`, one that is neither empty nor has the file `mark`."""
    if not is_there(path):
        return
    if not path.is_dir():
        raise OutputError(f"{path} is a file; name a folder")
    if not overwrite:
        raise OutputError(f"{path} exists already; say --overwrite to replace it, or name another folder")
    if any(path.iterdir()) and not (path / mark).is_file():
        raise OutputError(
            f"{path} is no {kind} (it has no {mark}), so it is not replaced; name another folder"
        )


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write into a folder beside `path`, which then takes its name."""
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:50]}-"))
    except OSError as error:
        raise OutputError(
            f"cannot write into {target.parent}: {error.strerror}; name another folder"
        ) from error
    try:
        made, old = beside / "made", beside / "old"
        made.mkdir()
        fill(made)
        if target.exists():
            target.rename(old)
        made.rename(target)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}; make room, or name another folder"
        ) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_model(
    folder: Path,
    name: str,
    sizes: Mapping[str, Any],
    words: Sequence[bytes],
    tensors: Tensors,
    note: str = _NOTE,
) -> Config:
    """Write all files but the report, and read them again; `note` is the first line of the configuration."""
    model = {
        "tokenizer": "words",
        "vocabulary": "vocabulary.txt",
        "vocabulary_size": len(words),
        "length": "ragged",
        **sizes,
        "weights": "model.safetensors",
        "golden": "golden.safetensors",
    }
    text = yaml.safe_dump(
        {"name": name, "model": model}, sort_keys=False, default_flow_style=None, allow_unicode=True
    )
    (folder / MODEL_FILE).write_text(note + text, "utf-8")
    (folder / "vocabulary.txt").write_bytes(b"\n".join(words) + b"\n")
    config = load_config(folder / MODEL_FILE)
    spec = config.model
    assert spec.weights is not None
    assert spec.golden is not None
    save_weights(spec.weights, spec, tensors)
    vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
    texts = SENTENCES.read_bytes().removesuffix(b"\n").split(b"\n")
    batch = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens).encode(texts).batch
    make_golden(spec.golden, spec, load_weights(spec.weights, spec), texts, batch)
    return config


def write_report(folder: Path, report: Mapping[str, Any]) -> None:
    """Write how the model was made and how good it is."""
    text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "report.json").write_text(text + "\n", "utf-8")
