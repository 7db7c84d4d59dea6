"""Which layers of a module are which of the family's, and their weights under the standard names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn
from torch.nn.parameter import is_lazy

from accel_cli.batches import Floats
from accel_cli.errors import ConfigError, UsageError
from accel_cli.torch.network import Network


@dataclass(frozen=True)
class Parts:
    """Where a module has the family's layers, by the names that its `named_modules` gives.

    A network without a gate has no experts. All but the last of `fc` are followed by ReLU; to what that
    leaves of those that are in `residual`, too, their input is added.
    """

    embedding: str
    convolution: tuple[str, ...]
    fc: tuple[str, ...]
    gate: str | None = None
    experts: tuple[str, ...] = ()
    residual: tuple[str, ...] = ()

    def __str__(self) -> str:
        gated = f", gate={self.gate!r}, experts={self.experts}" if self.gate is not None else ""
        shortcuts = f", residual={self.residual}" if self.residual else ""
        layers = f"embedding={self.embedding!r}, convolution={self.convolution}, fc={self.fc}"
        return f"Parts({layers}{gated}{shortcuts})"


def check_module(module: Any) -> None:
    """UsageError unless it is a module; ConfigError unless its parameters are real numbers that are there."""
    if not isinstance(module, nn.Module):
        raise UsageError(f"from_torch takes a module, got {type(module).__name__}")
    for name, parameter in module.named_parameters():
        if parameter.is_meta or is_lazy(parameter):
            raise ConfigError(f"{_name(module)} has no values in {name} yet; load or train it first")
        if not parameter.is_floating_point():
            raise ConfigError(f"{name} is {parameter.dtype}; convert it to a floating-point type")


def find_parts(module: nn.Module) -> Parts:
    """The parts of a module, by the types and the sizes of its layers in the order in which they were made.

    Several linear layers that take the features are a gate and its experts if the sizes allow it. That is a
    guess, which whoever uses it has to check. ConfigError if the module cannot be of the family.
    """
    if isinstance(module, Network):
        convolution = tuple(f"convolution.{width}" for width in module.convolution)
        experts, fc = _numbered("experts", module.experts), _numbered("fc", module.fc)
        residual = tuple(fc[number] for number in module.residual)
        return Parts("embedding", convolution, fc, "gate", experts, residual)
    embeddings, convolutions = _named(module, nn.Embedding), _named(module, nn.Conv1d)
    if len(embeddings) != 1 or not convolutions:
        raise ConfigError(
            f"{_name(module)} has {len(embeddings)} Embedding and {len(convolutions)} Conv1d layers; a model"
            " needs one embedding and one convolution or more"
        )
    [embedding] = embeddings
    features = sum(layer.out_channels for layer in convolutions.values())
    linear = _named(module, nn.Linear)
    heads = {name: layer.out_features for name, layer in linear.items() if layer.in_features == features}
    if not heads:
        raise ConfigError(f"{_name(module)} has no Linear layer that takes the {features} features")
    rest = tuple(name for name in linear if name not in heads)
    gate = next((name for name in heads if rest and _is_gate(name, heads)), None)
    if gate is None:
        return Parts(embedding, tuple(convolutions), tuple(linear))
    experts = tuple(name for name in heads if name != gate)
    return Parts(embedding, tuple(convolutions), rest, gate, experts)


def _is_gate(name: str, heads: dict[str, int]) -> bool:
    """Whether it has an output for each of the other layers, which all have as many."""
    others = [outputs for other, outputs in heads.items() if other != name]
    return heads[name] == len(others) and len(set(others)) == 1


def tensors_of(module: nn.Module, parts: Parts) -> dict[str, Floats]:
    """The weights under their standard names, float32; ConfigError unless the family has such layers.

    A network without experts gets one that has no rival: its first fully connected layer, which an identity
    follows, or an identity before that layer if it has a shortcut.
    """
    if foreign := [name for name in parts.residual if name not in parts.fc]:
        raise ConfigError(f"{parts} has {', '.join(foreign)} in residual, but not in fc; name it there, too")
    embedding = _at(module, parts.embedding, nn.Embedding)
    convolutions = [_at(module, name, nn.Conv1d) for name in parts.convolution]
    fc = [_at(module, name, nn.Linear) for name in parts.fc]
    experts = [_at(module, name, nn.Linear) for name in parts.experts]
    gate = [] if parts.gate is None else [_at(module, parts.gate, nn.Linear)]
    _check_convolutions(parts, convolutions)
    _check_all_used(module, parts, [embedding, *convolutions, *gate, *experts, *fc])
    if not fc or bool(gate) != bool(experts):
        raise ConfigError(f"{parts} has no fully connected layer, or a gate or experts alone; name them all")
    dense = [_arrays(layer) for layer in fc]
    heads = [_arrays(layer) for layer in (*gate, *experts)]
    if not gate:
        first = dense[0]
        open_gate = np.zeros_like(first[0][:1]), np.zeros(1, np.float32)
        if parts.fc[0] in parts.residual:
            heads = [open_gate, _identity(fc[0].in_features)]
        else:
            heads, dense[0] = [open_gate, first], _identity(fc[0].out_features)
    tensors = {"embedding.weight": _floats(embedding.weight)}
    layers = {f"convolution.{layer.kernel_size[0]}": _arrays(layer) for layer in convolutions}
    layers["gate"] = heads[0]
    layers |= {f"experts.{number}": layer for number, layer in enumerate(heads[1:])}
    layers |= {f"fc.{number}": layer for number, layer in enumerate(dense)}
    for name, (weight, bias) in layers.items():
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = weight, bias
    return tensors


def _check_convolutions(parts: Parts, convolutions: list[Any]) -> None:
    for name, layer in zip(parts.convolution, convolutions, strict=True):
        found = (layer.stride, layer.padding, layer.dilation, layer.groups)
        if found != ((1,), (0,), (1,), 1):
            raise ConfigError(
                f"{name} has stride, padding, dilation and groups {found}; the family's have"
                " ((1,), (0,), (1,), 1)"
            )
    widths = [layer.kernel_size[0] for layer in convolutions]
    filters = [layer.out_channels for layer in convolutions]
    if not widths or len(set(widths)) != len(widths) or len(set(filters)) != 1:
        raise ConfigError(
            f"the convolutions {', '.join(parts.convolution)} have the widths {widths} and {filters} filters;"
            " the family has one convolution of each width, all with as many filters"
        )


def _check_all_used(module: nn.Module, parts: Parts, layers: list[Any]) -> None:
    used = {id(parameter) for layer in layers for parameter in layer.parameters()}
    left = [name for name, parameter in module.named_parameters() if id(parameter) not in used]
    if left:
        raise ConfigError(
            f"{_name(module)} has parameters that are in none of the layers {parts}: {', '.join(left)}; the"
            " family is an embedding, convolutions, a gate over experts and fully connected layers"
        )


def _at(module: nn.Module, name: str, kind: type[Any]) -> Any:
    try:
        layer = module.get_submodule(name)
    except AttributeError as error:
        raise ConfigError(f"{_name(module)} has no layer {name!r}; see its named_modules()") from error
    if not isinstance(layer, kind):
        raise ConfigError(f"{name} is a {_name(layer)}, expected {kind.__name__}")
    return layer


def _arrays(layer: Any) -> tuple[Floats, Floats]:
    weight = _floats(layer.weight)
    return weight, np.zeros(len(weight), np.float32) if layer.bias is None else _floats(layer.bias)


def _identity(size: int) -> tuple[Floats, Floats]:
    return np.eye(size, dtype=np.float32), np.zeros(size, np.float32)


def _floats(parameter: Any) -> Floats:
    found: Floats = parameter.detach().cpu().float().numpy()
    return found


def _named(module: nn.Module, kind: type[Any]) -> dict[str, Any]:
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, kind)}


def _numbered(name: str, layers: Any) -> tuple[str, ...]:
    return tuple(f"{name}.{number}" for number in range(len(layers)))


def _name(module: nn.Module) -> str:
    return type(module).__name__
