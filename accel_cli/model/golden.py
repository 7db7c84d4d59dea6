"""Golden outputs: sentences and what the float64 reference makes of them, kept as float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.batches import TokenBatch
from accel_cli.errors import WeightsError
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward, layer_names
from accel_cli.model.weights import Weights, fingerprint, load_tensors, save_tensors


@dataclass(frozen=True)
class Golden:
    """Sentences with their tokens and checkpoints (see `model.reference` for names and shapes)."""

    texts: list[bytes]
    batch: TokenBatch
    layers: dict[str, npt.NDArray[Any]]


def kept_layers(spec: ModelSpec) -> list[str]:
    """The checkpoints that goldens hold: one value a sentence and output, so not those a window long."""
    return [name for name in layer_names(spec) if name != "embedding" and not name.startswith("convolution.")]


def make_golden(
    path: Path,
    spec: ModelSpec,
    weights: Weights,
    texts: Sequence[bytes],
    batch: TokenBatch,
    *,
    overwrite: bool = True,
) -> None:
    """Write what the reference makes of `texts`, which are tokenised as `batch`."""
    layers = forward(spec, weights, batch)
    tensors: dict[str, npt.NDArray[Any]] = {
        "text": np.frombuffer(b"\n".join(texts), dtype=np.uint8),
        "ids": batch.ids,
        "lengths": batch.lengths,
        **{name: layers[name].astype(np.float32) for name in kept_layers(spec)},
    }
    metadata = {"format": "accel-golden", "weights": fingerprint(weights)}
    save_tensors(path, tensors, metadata, overwrite=overwrite)


def load_golden(path: Path, spec: ModelSpec, weights: Weights) -> Golden:
    """Read goldens, or raise WeightsError unless they are whole and were made from these weights."""
    if not path.exists():
        raise WeightsError(f"no golden outputs {path}; make them with `accel validate --make-golden {path}`")
    tensors, metadata = load_tensors(path)
    wanted = ["text", "ids", "lengths", *kept_layers(spec)]
    if metadata.get("format") != "accel-golden" or set(tensors) != set(wanted):
        raise WeightsError(f"{path} holds no golden outputs of this network; make them with --make-golden")
    if metadata.get("weights") != fingerprint(weights):
        raise WeightsError(
            f"{path} was made from other weights; make it again with `accel validate --make-golden {path}`"
        )
    lengths = tensors["lengths"]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    texts = tensors["text"].tobytes().split(b"\n")
    layers = {name: tensors[name] for name in kept_layers(spec)}
    counts = {len(texts), len(lengths), *map(len, layers.values())}
    if len(counts) != 1 or offsets[-1] != len(tensors["ids"]):
        raise WeightsError(
            f"{path} contradicts itself: {len(texts)} texts, {len(lengths)} lengths, {len(tensors['ids'])}"
            " ids; make it again"
        )
    return Golden(texts, TokenBatch(tensors["ids"], offsets), layers)
