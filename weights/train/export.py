"""From a trained network to the files that ship, read again and measured as accel computes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from data import Texts
from network import Network

from accel_cli.batches import TokenBatch
from accel_cli.model.config import ModelSpec
from accel_cli.model.reference import forward
from accel_cli.model.weights import Tensors, load_weights, save_weights


def standard_tensors(network: Network) -> Tensors:
    """The network's arrays under their standard names: the embedding in float16, all else in float32."""
    tensors = {name: value.detach().float().cpu().numpy() for name, value in network.state_dict().items()}
    return {**tensors, "embedding.weight": tensors["embedding.weight"].astype(np.float16)}


def export(path: Path, spec: ModelSpec, network: Network) -> None:
    """Write the network as a weights file."""
    save_weights(path, spec, standard_tensors(network))


def reference_accuracy(path: Path, spec: ModelSpec, texts: Texts) -> float:
    """The accuracy of a weights file by accel's own float64 reference."""
    batch = TokenBatch(texts.ids.astype(np.int32), texts.offsets.astype(np.int32))
    logits = forward(spec, load_weights(path, spec), batch)["logits"]
    return float((logits.argmax(axis=1) == texts.labels).mean())
