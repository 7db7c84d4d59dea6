"""From labelled rows to a folder with a model: the whole of `accel train` but its options and progress."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.classifier import Classifier
from accel_cli.errors import AccelError, UsageError
from accel_cli.evaluation import Tally
from accel_cli.model.config import Config
from accel_cli.provenance import provenance
from accel_cli.text.labelled import Labelled
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.train.base import Base, extend, load_base
from accel_cli.train.examples import Examples, read_examples, split
from accel_cli.train.fit import Settings
from accel_cli.train.folder import check_free, write_folder, write_model, write_report
from accel_cli.train.merge import merge
from accel_cli.train.network import Shape
from accel_cli.train.networks import Parts, Trained, Watcher, train_networks
from accel_cli.train.rows import Rows

NETWORKS = 2  # that are trained and averaged: the first without the rows held out, the others with all
DIMENSION = 64  # of the embedding that a network learns
FILTERS = 512  # a width, of all networks together, where no base decides
WIDTHS = 2  # that are learned
MIXED = 0.4  # of the rows
MAX_TOKENS = 256
LEAST, MOST = 2, 60_000  # occurrences of a new word; words in all


@dataclass(frozen=True)
class Job:
    """What to train from, what to write, and how; None leaves a choice to `train`."""

    inputs: Sequence[Labelled]
    dev: Sequence[Labelled]
    output: Path
    overwrite: bool = False
    base: str = "sentiment"
    device: str = "auto"
    filters: int | None = None
    epochs: int | None = None
    batch: int = 64
    rate: float = 4e-3
    seed: int = 1
    limit_seconds: float = float("inf")


def train(job: Job, watcher: Watcher) -> Tally:
    """Train and write the folder; gives how its model does on the rows held out. Raises AccelError."""
    device = _device(job.device)
    check_free(job.output, job.overwrite)
    begin = time.monotonic()
    base = load_base(job.base)
    if base is not None and job.filters not in (None, base.spec.filters):
        raise UsageError(
            f"--filters {job.filters} does not go with --base {job.base}, whose {base.spec.filters} filters a"
            " width are kept; leave it out, or say --base none"
        )
    every, learned, held, labels = _examples(job)
    words = extend(base.words if base else [], every.texts, LEAST, MOST)
    filters = base.spec.filters if base else job.filters or FILTERS
    networks = min(NETWORKS, filters)
    shape = Shape(
        words=len(words),
        dimension=DIMENSION,
        widths=_widths(base),
        filters=filters // networks,
        base_widths=base.spec.widths if base else (),
        base_filters=filters if base else 0,
        labels=len(labels),
    )
    watcher.say(
        f"{len(learned)} rows to learn from, {len(held)} held out, {len(labels)} labels, {len(words)} words,"
        f" base {job.base}, on {device}"
    )
    most = base.spec.max_tokens if base else MAX_TOKENS
    tokenizer = Tokenizer({word: number for number, word in enumerate(words)}, max(shape.all_widths), most)
    parts, scales = _rows(base, tokenizer, every, learned, held)
    epochs = job.epochs or _epochs(len(every))
    settings = Settings(
        epochs=epochs,
        batch=job.batch,
        rate=job.rate,
        seed=job.seed,
        seconds=job.limit_seconds / networks,
        mixed=0.0 if base else MIXED,  # the base's features are of whole sentences
        patience=max(3, epochs // 2),  # most is gained while the rate falls
    )
    trained = train_networks(shape, base, parts, labels, settings, networks, device, watcher)
    tensors = merge(shape, trained.members, filters, base, scales)

    def fill(folder: Path) -> None:
        sizes = {
            "max_tokens": most,
            "embedding": tensors["embedding.weight"].shape[1],
            "widths": list(shape.all_widths),
            "filters": filters,
            "experts": 1,
            "expert_hidden": len(labels),
            "fully_connected": [len(labels)],
            "labels": list(labels),
        }
        half = {"embedding.weight": tensors["embedding.weight"].astype(np.float16)}
        config = write_model(folder, job.output.name, sizes, words, {**tensors, **half})
        trained.tally.seconds = _time(config, held)
        seconds = time.monotonic() - begin
        write_report(folder, _report(job, device, settings, every, trained, seconds))

    write_folder(job.output, fill)
    return trained.tally


def _device(asked: str) -> str:
    """The device to train on. Torch is imported here first."""
    # threads that spin while they wait slow a machine that runs anything else
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        import torch
    except ImportError:
        raise AccelError(
            'accel train needs PyTorch, which is not installed: in a checkout, say pip install ".[train]"'
        ) from None
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: PyTorch finds no CUDA device here; say --device cpu or auto")
    return asked


def _examples(job: Job) -> tuple[Examples, Examples, Examples, list[str]]:
    """All rows, those that the first network learns from, those held out, and the labels' names."""
    examples, labels = read_examples(job.inputs)
    if job.dev:
        return examples, examples, read_examples(job.dev, labels)[0], labels
    learned, held = split(examples, job.seed)
    return examples, examples.take(learned), examples.take(held), labels


def _widths(base: Base | None) -> tuple[int, ...]:
    """The narrowest widths that the base does not have."""
    taken = base.spec.widths if base else ()
    free = (width for width in range(1, WIDTHS + len(taken) + 1) if width not in taken)
    return tuple(islice(free, WIDTHS))


def _epochs(rows: int) -> int:
    """Fewer of a larger file, which shows more in each."""
    return int(np.clip(round(10 * (10_000 / rows) ** 0.5), 4, 30))


def _rows(base: Base | None, tokenizer: Tokenizer, *parts: Examples) -> tuple[Parts, Floats]:
    """The parts tokenised, with the base's features, and the factors that bring those to deviation 1."""
    batches = [tokenizer.encode(part.texts).batch for part in parts]
    if base is None:
        features = [np.zeros((len(part), 0, 0), dtype=np.float16) for part in parts]
        scales = np.ones((0, 0), dtype=np.float32)
    else:
        features = [base.features(batch) for batch in batches]
        scales = (1 / np.maximum(features[0].astype(np.float32).std(axis=0), 0.1)).astype(np.float32)
        features = [(part * scales).astype(np.float16) for part in features]
    rows = [
        Rows(batch, some, part.labels) for batch, some, part in zip(batches, features, parts, strict=True)
    ]
    return Parts(*rows), scales


def _time(config: Config, held: Examples) -> float:
    """The seconds that the finished model takes for the rows held out."""
    with Classifier(config, "cpu") as classifier:
        begin = time.perf_counter()
        classifier.predict(held.texts)
        return time.perf_counter() - begin


def _report(
    job: Job,
    device: str,
    settings: Settings,
    every: Examples,
    trained: Trained,
    seconds: float,
) -> dict[str, Any]:
    import torch

    return {
        "inputs": [source.place for source in job.inputs],
        "dev": [source.place for source in job.dev],
        "base": job.base,
        "device": device,
        **provenance(programs=(f"torch {torch.__version__}",)),
        "learned_rows": len(every),
        "seconds": seconds,
        "settings": {
            **asdict(settings),
            "seconds": None if settings.seconds == float("inf") else settings.seconds,
        },
        "epochs": [asdict(epoch) for epoch in trained.epochs],
        **trained.tally.as_json(),
    }
