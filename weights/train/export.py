"""From a trained network to the file that ships: small, calibrated, read again as accel reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from network import Network
from ragged import Array

from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.model.weights import SCALE, Tensors, load_weights, save_weights
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import load_vocabulary

EMBEDDING = "embedding.weight"


def small_tensors(network: Network) -> Tensors:
    """The network's arrays by their standard names: embedding in int8 with one scale a row, else float16."""
    tensors = {name: value.detach().float().cpu().numpy() for name, value in network.state_dict().items()}
    table = tensors.pop(EMBEDDING)
    scale = np.maximum(np.abs(table).max(axis=1), 1e-8) / 127
    small = {name: value.astype(np.float16) for name, value in tensors.items()}
    return {EMBEDDING: np.rint(table / scale[:, None]).astype(np.int8), SCALE: scale, **small}


def export(path: Path, spec: ModelSpec, network: Network) -> None:
    """Write the network as a weights file."""
    save_weights(path, spec, small_tensors(network))


def cool(network: Network, temperature: float) -> None:
    """Divide the network's logits by `temperature`, once and for all."""
    with torch.no_grad():
        for parameter in network.fc[-1].parameters():
            parameter /= temperature


def read(path: Path, spec: ModelSpec) -> Network:
    """The network in a weights file."""
    weights = load_weights(path, spec)
    network = Network(spec)
    arrays = {EMBEDDING: weights.embedding}
    layers = {
        **{
            f"convolution.{width}": layer
            for width, layer in zip(spec.widths, weights.convolutions, strict=True)
        },
        "gate": weights.gate,
        **{f"experts.{number}": layer for number, layer in enumerate(weights.experts)},
        **{f"fc.{number}": layer for number, layer in enumerate(weights.fully_connected)},
    }
    for name, layer in layers.items():
        arrays |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return network


def reference_logits(path: Path, vocabulary: Path, spec: ModelSpec, lines: list[bytes]) -> Array:
    """What accel's own tokenizer and float64 reference make of a weights file."""
    words = load_vocabulary(vocabulary, spec.vocabulary_size)
    batch = Tokenizer(words, spec.min_tokens, spec.max_tokens).encode(lines).batch
    logits: Array = forward(spec, load_weights(path, spec), batch)["logits"]
    return logits
