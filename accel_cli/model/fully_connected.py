"""The fully connected layers in a configuration: a number is a layer's outputs, a mapping says more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accel_cli.errors import ConfigError
from accel_cli.model.fields import SIZE, Section

_KEY = "fully_connected"


def read_fully_connected(section: Section, inputs: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The outputs of each layer, and the numbers of those with a shortcut; the first one takes `inputs`."""
    layers = _layers(section)
    outputs = tuple(layer.integer("width") for layer in layers)
    residual = tuple(number for number, layer in enumerate(layers) if layer.flag("residual"))
    sizes = (inputs, *outputs)
    for number in residual:
        key, before, after = f"{section.path}: {layers[number].prefix}residual", *sizes[number : number + 2]
        if number + 1 == len(outputs):
            raise ConfigError(f"{key} is true of the last layer, whose outputs are the logits; remove it")
        if before != after:
            raise ConfigError(
                f"{key} is true of a layer of {before} inputs and {after} outputs; a shortcut takes as many"
                f" of both: make the width {before}, or remove it"
            )
    return outputs, residual


def _layers(section: Section) -> list[Section]:
    entries = section.values.get(_KEY)
    if not isinstance(entries, list) or not entries or not all(map(_is_layer, entries)):
        raise section.fail(_KEY, f"a list of whole numbers from 1 to {SIZE}, or of mappings with a `width`")
    layers = []
    for number, entry in enumerate(entries):
        values = {"width": entry} if isinstance(entry, int) else entry
        layer = Section(section.path, values, f"{section.prefix}{_KEY}[{number}].")
        layer.known(("width", "residual"))
        layers.append(layer)
    return layers


def _is_layer(entry: Any) -> bool:
    return isinstance(entry, int | Mapping)
