"""From labelled rows to a folder with a model: the whole of `accel train` but its options and progress."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from accel_cli.batches import Floats
from accel_cli.bench.facts import commit, machine, versions
from accel_cli.classifier import Classifier
from accel_cli.errors import AccelError, UsageError
from accel_cli.evaluation import Tally
from accel_cli.text.labelled import Labelled
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.train.base import Base, extend, load_base
from accel_cli.train.calibration import temperature
from accel_cli.train.examples import Examples, read_examples, split
from accel_cli.train.fit import Epoch, Fitted, Rows, Settings, fit
from accel_cli.train.folder import check_free, write_folder, write_model, write_report
from accel_cli.train.network import Shape, initial, whole

DIMENSION = 64  # of the embedding that is learned
FILTERS = 128  # a width, where no base decides
WIDTHS = 2  # that are learned
EXPERTS, HIDDEN = 2, 128
MAX_TOKENS = 256
LEAST, MOST = 2, 60_000  # occurrences of a new word; words in all
RARE = 0.5  # how far the loss makes up for rare labels: 0 not at all, 1 wholly
SPREAD = 0.02  # the deviation of an embedding at the beginning: noise of rare words would win maxima


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


@dataclass(frozen=True)
class Watcher:
    """Who hears of the progress: lines, the share of all steps done, and epochs."""

    say: Callable[[str], None]
    tell: Callable[[float], None]
    report: Callable[[Epoch], None]


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
    learned, held, labels = _examples(job)
    words = extend(base.words if base else [], learned.texts, LEAST, MOST)
    shape = Shape(
        words=len(words),
        dimension=DIMENSION,
        widths=_widths(base),
        filters=base.spec.filters if base else job.filters or FILTERS,
        base_widths=base.spec.widths if base else (),
        experts=EXPERTS,
        hidden=HIDDEN,
        labels=len(labels),
    )
    watcher.say(
        f"{len(learned)} rows to learn from, {len(held)} held out, {len(labels)} labels, {len(words)} words,"
        f" base {job.base}, on {device}"
    )
    most = base.spec.max_tokens if base else MAX_TOKENS
    tokenizer = Tokenizer({word: number for number, word in enumerate(words)}, max(shape.all_widths), most)
    rows, held_rows, scales = _rows(shape, base, tokenizer, learned, held)
    settings = Settings(job.epochs or _epochs(len(learned)), job.batch, job.rate, job.seed, job.limit_seconds)
    fitted, tensors = _fit(shape, base, rows, held_rows, scales, settings, device, watcher)
    tallies: list[Tally] = []

    def fill(folder: Path) -> None:
        sizes = {
            "max_tokens": most,
            "embedding": DIMENSION + (base.spec.embedding if base else 0),
            "widths": list(shape.all_widths),
            "filters": shape.filters,
            "experts": EXPERTS,
            "expert_hidden": HIDDEN,
            "fully_connected": [HIDDEN, len(labels)],
            "labels": list(labels),
        }
        config = write_model(folder, job.output.name, sizes, words, tensors)
        with Classifier(config, "cpu") as classifier:
            tallies.append(_judge(classifier, held))
        seconds = time.monotonic() - begin
        write_report(folder, _report(job, device, settings, learned, fitted, tallies[0], seconds))

    write_folder(job.output, fill)
    return tallies[0]


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


def _examples(job: Job) -> tuple[Examples, Examples, list[str]]:
    """Rows to learn from, rows held out, and the names of the labels."""
    examples, labels = read_examples(job.inputs)
    if job.dev:
        return examples, read_examples(job.dev, labels)[0], labels
    learned, held = split(examples, job.seed)
    return examples.take(learned), examples.take(held), labels


def _widths(base: Base | None) -> tuple[int, ...]:
    """The narrowest widths that the base does not have."""
    taken = base.spec.widths if base else ()
    free = (width for width in range(1, WIDTHS + len(taken) + 1) if width not in taken)
    return tuple(islice(free, WIDTHS))


def _epochs(rows: int) -> int:
    """Fewer of a larger file, which shows more in each."""
    return int(np.clip(round(10 * (10_000 / rows) ** 0.5), 4, 30))


def _rows(
    shape: Shape, base: Base | None, tokenizer: Tokenizer, *parts: Examples
) -> tuple[Rows, Rows, Floats]:
    """Both parts tokenised, with the base's features, and the factors that bring those to deviation 1."""
    batches = [tokenizer.encode(part.texts).batch for part in parts]
    if base is None:
        features = [np.zeros((len(part), 0, 0), dtype=np.float16) for part in parts]
        scales = np.ones((0, 0), dtype=np.float32)
    else:
        features = [base.features(batch) for batch in batches]
        scales = 1 / np.maximum(features[0].astype(np.float32).std(axis=0), 0.1)
        features = [(part * scales).astype(np.float16) for part in features]
    first, second = (
        Rows(batch, some, part.labels) for batch, some, part in zip(batches, features, parts, strict=True)
    )
    return first, second, scales.astype(np.float32)


def _fit(
    shape: Shape,
    base: Base | None,
    rows: Rows,
    held: Rows,
    scales: Floats,
    settings: Settings,
    device: str,
    watcher: Watcher,
) -> tuple[Fitted, dict[str, Floats]]:
    """Train; gives how it went and the finished network's tensors, calibrated on the held-out rows."""
    import torch

    counts = np.bincount(rows.labels, minlength=shape.labels)
    shares = np.maximum(counts, 0.5) / counts.sum()
    weights = shares**-RARE
    weights /= (weights * shares).sum()
    embedding = np.random.default_rng(settings.seed).normal(0, SPREAD, (shape.words, shape.dimension))
    if base is not None:
        embedding[: len(base.words)] = SPREAD * base.projection(shape.dimension)
    torch.manual_seed(settings.seed)
    start = initial(shape, embedding.astype(np.float32), (shares * weights).astype(np.float32))
    fitted = fit(
        shape, start, rows, held, weights.astype(np.float32), settings, device, watcher.tell, watcher.report
    )
    # the weights made rare labels count for more; scores are to be those of the file's own shares
    correction = np.log(weights)
    heat = temperature(fitted.held_logits - correction, held.labels)
    learned = dict(fitted.tensors)
    learned["fc.1.weight"] = (learned["fc.1.weight"] / heat).astype(np.float32)
    learned["fc.1.bias"] = ((learned["fc.1.bias"] - correction) / heat).astype(np.float32)
    return fitted, whole(shape, learned, base, scales)


def _judge(classifier: Classifier, held: Examples) -> Tally:
    """How the finished model does on the rows held out."""
    tally = Tally(classifier.labels)
    begin = time.perf_counter()
    tally.add(held.labels, classifier.predict(held.texts).scores)
    tally.seconds = time.perf_counter() - begin
    return tally


def _report(
    job: Job,
    device: str,
    settings: Settings,
    learned: Examples,
    fitted: Fitted,
    tally: Tally,
    seconds: float,
) -> dict[str, Any]:
    import torch

    return {
        "inputs": [source.place for source in job.inputs],
        "dev": [source.place for source in job.dev],
        "base": job.base,
        "device": device,
        "machine": machine(),
        "versions": versions(programs=(f"torch {torch.__version__}",)),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "learned_rows": len(learned),
        "seconds": seconds,
        "settings": {
            **asdict(settings),
            "seconds": None if settings.seconds == float("inf") else settings.seconds,
        },
        "epochs": [asdict(epoch) for epoch in fitted.epochs],
        **tally.as_json(),
    }
