"""Models from PyTorch, as folders with a configuration, and models as PyTorch's modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from accel_cli.batches import Floats
from accel_cli.errors import AccelError, UsageError
from accel_cli.model.config import Config, load_config
from accel_cli.model.generate import obtain_weights
from accel_cli.model.weights import load_weights, shapes
from accel_cli.text.vocabulary import SPECIAL
from accel_cli.torch.network import Network
from accel_cli.torch.parts import Parts, check_module, find_parts, tensors_of
from accel_cli.torch.same import check_same
from accel_cli.train.folder import check_free, write_folder, write_model

_NOTE = "# Made by `accel_cli.torch.from_torch`; the folder may be moved.\n"


def to_torch(config: str | Path = "sentiment") -> Network:
    """The network of a configuration, a file or a packaged name, with its weights. Raises AccelError."""
    spec = load_config(config).model
    weights = obtain_weights(spec)
    layers = (*weights.convolutions, weights.gate, *weights.experts, *weights.fully_connected)
    arrays = [weights.embedding, *(array for layer in layers for array in (layer.weight, layer.bias))]
    network = Network.of(spec)
    tensors = map(torch.from_numpy, arrays)
    network.load_state_dict(dict(zip(shapes(spec), tensors, strict=True)))
    return network


def from_torch(
    module: nn.Module,
    folder: str | Path,
    *,
    labels: Sequence[str],
    words: Sequence[str] | None = None,
    length: int | None = None,
    max_tokens: int = 256,
    parts: Parts | None = None,
    overwrite: bool = False,
) -> Config:
    """Write a module as a model, a folder that every command takes as --config; gives its configuration.

    The module takes int64 ids [sentences, tokens] and gives logits [sentences, labels]. `words` are the
    vocabulary, a word an id, `<unk>` and `<pad>` first; without them the model knows no word and is for token
    ids. Sentences have `length` tokens, or any number up to `max_tokens` without it. `parts` says which layer
    is which; without it they are found by their types and sizes. Either way the model's logits are compared
    with the module's on random ids, and nothing is written unless they are the same. Raises AccelError.
    """
    target = Path(folder)
    check_module(module)
    if isinstance(labels, str):
        raise UsageError(f"labels is {labels!r}; give a list, a label for each logit")
    check_free(target, overwrite)
    known = parts or find_parts(module)
    tensors = tensors_of(module, known)
    lengths = {"max_tokens": max_tokens} if length is None else {"length": length}
    sizes = {**lengths, **_sizes(tensors, known), "labels": list(labels)}
    vocabulary = _vocabulary(words, len(tensors["embedding.weight"]))

    def fill(place: Path) -> None:
        try:
            spec = write_model(place, target.resolve().name, sizes, vocabulary, tensors, _NOTE).model
            assert spec.weights is not None
            check_same(module, spec, load_weights(spec.weights, spec), known)
        except AccelError as error:  # it may name the folder, which is gone when that is read
            raise type(error)(str(error).replace(str(place), str(target))) from error

    write_folder(target, fill)
    return load_config(target)


def _sizes(tensors: Mapping[str, Floats], parts: Parts) -> dict[str, Any]:
    biases = {
        name.removesuffix(".bias"): len(tensor) for name, tensor in tensors.items() if name.endswith(".bias")
    }
    filters = {name: size for name, size in biases.items() if name.startswith("convolution.")}
    outputs = [size for name, size in biases.items() if name.startswith("fc.")]
    return {
        "embedding": tensors["embedding.weight"].shape[1],
        "widths": [int(name.partition(".")[2]) for name in filters],
        "filters": next(iter(filters.values())),
        "experts": biases["gate"],
        "expert_hidden": biases["experts.0"],
        "fully_connected": [
            {"width": size, "residual": True} if name in parts.residual else size
            for name, size in zip(parts.fc, outputs, strict=True)
        ],
    }


def _vocabulary(words: Sequence[str] | None, size: int) -> list[bytes]:
    """The words as a file holds them, or such as no text has."""
    if words is None:
        return [*SPECIAL, *(b"<%d>" % number for number in range(len(SPECIAL), size))]
    if len(words) != size:
        raise UsageError(
            f"words has {len(words)} words, but the module's embedding has {size}; give one for each"
        )
    return [_encoded(number, word) for number, word in enumerate(words)]


def _encoded(number: int, word: str) -> bytes:
    try:
        return word.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise UsageError(f"words[{number}] is {word!r}; give a str that UTF-8 can hold") from error
