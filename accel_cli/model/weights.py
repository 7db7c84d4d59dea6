"""Weights: the arrays of a network, their standard names, and the safetensors file that holds them.

The file's metadata carry the model's shape and a sha256 over all tensors, both checked on load:
a flipped bit in a tensor would otherwise load without a word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from accel_cli.batches import Floats
from accel_cli.errors import OutputError, WeightsError
from accel_cli.model.config import ModelSpec
from accel_cli.text.writers import beside

Tensors = Mapping[str, npt.NDArray[Any]]
FORMAT = "accel-weights"  # of a weights file, in its metadata
SCALE = "embedding.scale"  # [vocabulary]: stands beside an embedding in int8, whose rows it multiplies


@dataclass(frozen=True)
class Layer:
    """A weight with outputs first, and its bias [outputs]."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True)
class Weights:
    """A network's arrays, float32.

    `embedding` [vocabulary, dimension]; a convolution's weight [filters, dimension, width]; any other
    weight [outputs, inputs].
    """

    embedding: Floats
    convolutions: tuple[Layer, ...]
    gate: Layer
    experts: tuple[Layer, ...]
    fully_connected: tuple[Layer, ...]


def shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """The standard names of a network's tensors and their shapes."""
    names: dict[str, tuple[int, ...]] = {"embedding.weight": (spec.vocabulary_size, spec.embedding)}

    def layer(name: str, *shape: int) -> None:
        names[f"{name}.weight"] = shape
        names[f"{name}.bias"] = shape[:1]

    for width in spec.widths:
        layer(f"convolution.{width}", spec.filters, spec.embedding, width)
    layer("gate", spec.experts, spec.features)
    for expert in range(spec.experts):
        layer(f"experts.{expert}", spec.expert_hidden, spec.features)
    inputs = spec.expert_hidden
    for index, outputs in enumerate(spec.fully_connected):
        layer(f"fc.{index}", outputs, inputs)
        inputs = outputs
    return names


def assemble(spec: ModelSpec, tensors: Tensors) -> Weights:
    """The network made of tensors whose names and shapes are already checked."""

    def array(name: str) -> Floats:
        return np.ascontiguousarray(tensors[name], dtype=np.float32)

    def layer(name: str) -> Layer:
        return Layer(array(f"{name}.weight"), array(f"{name}.bias"))

    embedding = "embedding.weight"
    if SCALE in tensors:
        words = np.multiply(tensors[embedding], array(SCALE)[:, None], dtype=np.float32)
    else:
        words = array(embedding)
    return Weights(
        words,
        tuple(layer(f"convolution.{width}") for width in spec.widths),
        layer("gate"),
        tuple(layer(f"experts.{expert}") for expert in range(spec.experts)),
        tuple(layer(f"fc.{index}") for index in range(len(spec.fully_connected))),
    )


def fingerprint(weights: Weights) -> str:
    """A sha256 over the values of a network, as float32."""
    layers = (*weights.convolutions, weights.gate, *weights.experts, *weights.fully_connected)
    arrays = [weights.embedding, *(array for layer in layers for array in (layer.weight, layer.bias))]
    return digest({f"{number:04}": array for number, array in enumerate(arrays)})


def shape_text(spec: ModelSpec) -> str:
    """A network's shape as the metadata hold it."""
    return json.dumps({name: list(shape) for name, shape in shapes(spec).items()}, sort_keys=True)


def digest(tensors: Tensors) -> str:
    """The sha256 over names, types, shapes and bytes of all tensors, in the order of their names."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        total.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        total.update(tensor.data.cast("B") if tensor.size else b"")
    return total.hexdigest()


def save_tensors(
    path: Path, tensors: Tensors, metadata: Mapping[str, str], *, overwrite: bool = True
) -> None:
    """Write a safetensors file with its sha256, whole or not at all."""
    arrays = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(str(path), overwrite) as temporary:
            save_file(arrays, temporary, {**metadata, "sha256": digest(arrays)})
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot write {path}: {reason}; make room, or name another file") from error


def load_tensors(path: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, its sha256 checked; WeightsError if damaged."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: _plain(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise WeightsError(
            f"no weights file {path}; check model.weights, or make it with `accel weights`"
        ) from None
    except OSError as error:
        raise WeightsError(f"cannot read the weights {path}: {error.strerror or error}") from error
    except (SafetensorError, TypeError, AttributeError) as error:  # the last two: types numpy does not have
        raise WeightsError(
            f"{path} is damaged or not a safetensors file ({error}); fetch it again, or convert it with"
            " `accel weights convert`"
        ) from error
    expected = metadata.get("sha256")
    if expected is None:
        raise WeightsError(
            f"{path} is not a file of accel's: it carries no sha256; write it with `accel weights convert`"
        )
    found = digest(tensors)
    if found != expected:
        raise WeightsError(
            f"{path} is damaged: sha256 is {found[:16]}..., expected {expected[:16]}...; fetch it again"
        )
    return tensors, metadata


def _plain(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The tensor; TypeError for types that numpy has only where ml_dtypes is installed."""
    if tensor.dtype.isbuiltin != 1:
        raise TypeError(f"numpy has no type {tensor.dtype}")
    return tensor


def save_weights(path: Path, spec: ModelSpec, tensors: Tensors, *, overwrite: bool = True) -> None:
    """Write a network's tensors, which must fit `spec`, as a weights file."""
    check(path, spec, tensors)
    save_tensors(path, tensors, {"format": FORMAT, "shape": shape_text(spec)}, overwrite=overwrite)


def load_weights(path: Path, spec: ModelSpec) -> Weights:
    """Read the weights in `path`, or raise WeightsError unless they are whole and fit `spec`."""
    tensors, metadata = load_tensors(path)
    check(path, spec, tensors)
    if metadata.get("shape") != shape_text(spec):
        raise WeightsError(
            f"{path}: the shape in the metadata is not that of the tensors; convert the file again"
        )
    return assemble(spec, tensors)


def check_recorded(path: Path, tensors: Tensors, metadata: Mapping[str, str]) -> None:
    """Raise WeightsError unless the tensors are weights, whole by the shape in the metadata, and finite."""
    found = metadata.get("format", "unknown")
    if found != FORMAT:
        raise WeightsError(
            f"{path} holds no weights of accel: its format is {found}, not {FORMAT}; write it with"
            " `accel weights convert`"
        )
    try:
        wanted = {name: tuple(shape) for name, shape in json.loads(metadata["shape"]).items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        raise WeightsError(f"{path} records no shape in its metadata; convert the file again") from None
    if SCALE in tensors:
        wanted[SCALE] = tensors["embedding.weight"].shape[:1] if "embedding.weight" in tensors else ()
    for problem in _problems(wanted, tensors):
        raise WeightsError(f"{path} does not fit the shape in its metadata: {problem}")


def check(path: Path, spec: ModelSpec, tensors: Tensors) -> None:
    """Raise WeightsError unless the tensors are those of `spec`, floating-point and finite.

    The embedding may be int8 where `embedding.scale` stands beside it.
    """
    wanted = shapes(spec)
    if SCALE in tensors:
        wanted[SCALE] = (spec.vocabulary_size,)
    for problem in _problems(wanted, tensors):
        raise WeightsError(f"{path} does not fit the configuration: {problem}")


def _problems(wanted: Mapping[str, tuple[int, ...]], tensors: Tensors) -> Iterator[str]:
    if missing := [name for name in wanted if name not in tensors]:
        yield f"missing {', '.join(missing)}"
    if extra := [name for name in tensors if name not in wanted]:
        yield f"unexpected {', '.join(extra)}"
    for name, shape in wanted.items():
        tensor = tensors[name]
        if tensor.shape != shape:
            yield f"{name} has shape {list(tensor.shape)}, expected {list(shape)}"
        if name == "embedding.weight" and SCALE in wanted:
            if tensor.dtype != np.int8:
                yield f"{name} is {tensor.dtype}, expected int8 beside {SCALE}"
        elif tensor.dtype not in (np.float16, np.float32, np.float64):
            yield f"{name} is {tensor.dtype}, expected float16 or float32"
        if not np.isfinite(tensor).all():
            yield f"{name} holds NaN or infinity"
