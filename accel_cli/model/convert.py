"""Weights from elsewhere: the school's params.bin, a PyTorch state dict, safetensors without our metadata."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from accel_cli.batches import Floats
from accel_cli.errors import WeightsError
from accel_cli.model.config import ModelSpec
from accel_cli.model.generate import deviation, normals
from accel_cli.model.weights import Tensors, check, shapes


def read_foreign(path: Path, spec: ModelSpec, embedding_seed: int) -> Tensors:
    """The tensors of a file by their standard names, or WeightsError unless they fit `spec`.

    A params.bin holds no embedding: one is generated from `embedding_seed`.
    """
    if not path.is_file():
        raise WeightsError(f"no file {path} to convert")
    tensors = _read(path, spec, embedding_seed)
    check(path, spec, tensors)
    return tensors


def _read(path: Path, spec: ModelSpec, embedding_seed: int) -> Tensors:
    if path.suffix == ".bin":
        return _params_bin(path, spec, embedding_seed)
    if path.suffix in (".pt", ".pth"):
        return _named(path, spec, _state_dict(path))
    try:
        return _named(path, spec, load_file(path))
    except (SafetensorError, TypeError, AttributeError) as error:
        raise WeightsError(
            f"{path} is no safetensors file ({error}); a raw file of the school must end in .bin, a PyTorch"
            " state dict in .pt or .pth"
        ) from error


def _params_bin(path: Path, spec: ModelSpec, embedding_seed: int) -> Tensors:
    """Little-endian float32 without a header, in the order of the course's year."""
    of_2025 = _order(spec, ("convolution.", "experts.", "gate.", "fc."))
    of_2024 = _order(spec, ("embedding.", "convolution.", "fc."))
    size = path.stat().st_size
    if size == _bytes(of_2025):
        shape = shapes(spec)["embedding.weight"]
        scale = deviation("embedding.weight", shape)
        values = normals(embedding_seed, "embedding.weight", int(np.prod(shape)), scale)
        return {"embedding.weight": values.reshape(shape), **_cut(path, of_2025)}
    if size == _bytes(of_2024) and spec.experts == 1 and spec.expert_hidden == spec.features:
        # that network has no experts: one that changes nothing, behind a gate that is always open
        return {**_cut(path, of_2024), **_identity_expert(spec.features)}
    raise WeightsError(
        f"{path} has {size} bytes; a params.bin of this network has {_bytes(of_2025)}. Choose the --config"
        " that describes it: school, or school-2024 for the file with an embedding and without experts"
    )


def _order(spec: ModelSpec, groups: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of some groups, group after group."""
    wanted = shapes(spec)
    return {name: wanted[name] for group in groups for name in wanted if name.startswith(group)}


def _bytes(order: Mapping[str, tuple[int, ...]]) -> int:
    return 4 * sum(int(np.prod(shape)) for shape in order.values())


def _cut(path: Path, order: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    values = np.fromfile(path, dtype="<f4").astype(np.float32, copy=False)
    ends = np.cumsum([int(np.prod(shape)) for shape in order.values()])
    parts = np.split(values, ends[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(order.items(), parts, strict=True)}


def _identity_expert(size: int) -> dict[str, Floats]:
    return {
        "gate.weight": np.zeros((1, size), dtype=np.float32),
        "gate.bias": np.zeros(1, dtype=np.float32),
        "experts.0.weight": np.eye(size, dtype=np.float32),
        "experts.0.bias": np.zeros(size, dtype=np.float32),
    }


def _state_dict(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        import torch
    except ImportError as error:
        raise WeightsError(
            f"reading {path} takes PyTorch, which is not installed: `pip install torch`, or save"
            " the state dict with safetensors.torch.save_file and convert that"
        ) from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its unpickler happens to meet
        reason = str(error).partition(".")[0]  # the rest is a page of advice
        raise WeightsError(f"{path} is no PyTorch state dict ({reason}); save it with torch.save") from error
    if not isinstance(state, Mapping) or not all(hasattr(value, "numpy") for value in state.values()):
        raise WeightsError(f"{path} is no state dict of tensors; save model.state_dict(), not the model")
    return {str(name): value.detach().float().numpy() for name, value in state.items()}


def _named(path: Path, spec: ModelSpec, tensors: Mapping[str, npt.NDArray[Any]]) -> Tensors:
    """The tensors, if their names are the standard ones."""
    wanted = shapes(spec)
    for name in tensors:
        if name not in wanted:
            close = difflib.get_close_matches(name, wanted, n=1)
            hint = f"did you mean {close[0]}?" if close else f"standard names: {', '.join(wanted)}"
            raise WeightsError(f"{path}: unexpected tensor {name}; {hint}")
    return dict(tensors)
