"""The recipe: the training configuration, read from YAML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from accel_cli.model.config import ModelSpec, load_config


@dataclass(frozen=True)
class Source:
    """How a data set takes part; sentiment.yaml explains the numbers. `rows` limits it, 0 does not."""

    teacher: float = 0.0
    student: float = 0.0
    base: float = 0.0
    smoothing: float = 0.0
    rows: int = 0


@dataclass(frozen=True)
class Fit:
    """How one network is trained; its embedding learns at `embedding_rate` times the rate."""

    epochs: int
    batch: int
    rate: float
    decay: float
    averaging: float
    temperature: float = 1.0
    embedding_rate: float = 1.0
    word_dropout: float = 0.0
    embedding_dropout: float = 0.0
    feature_dropout: float = 0.0


@dataclass(frozen=True)
class Teacher:
    """The teachers: how many, their training, the longest input, the tokens of a batch when they label.

    They differ in their seeds, and what is learned from is the mean of their logits.
    """

    count: int
    fit: Fit
    max_tokens: int
    budget: int
    vectors: int  # dimensions of the word vectors taken from it


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, the data and the pretrained teacher aside."""

    spec: ModelSpec
    seed: int
    vectors: tuple[str, ...]
    sets: dict[str, Source]
    unlabelled: Source
    teacher: Teacher
    neighbours: int
    augmentations: dict[str, int]
    openers: tuple[str, ...]
    connectors: tuple[str, ...]
    emoji: str
    shard: int
    distil: Fit
    calibration: tuple[str, ...]

    @property
    def sources(self) -> dict[str, Source]:
        """Every source of training texts, in the order in which they are kept."""
        return {**self.sets, "unlabelled": self.unlabelled}

    def plain(self) -> dict[str, Any]:
        """The recipe as JSON can hold it; where its files lie is of no interest."""
        values = asdict(self)
        values["spec"] = {key: item for key, item in values["spec"].items() if not isinstance(item, Path)}
        return values


def load_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe, with `changes` such as "distil.epochs=2"; the model's file lies relative to it."""
    values = yaml.safe_load(path.read_text("utf-8"))
    for change in changes:
        name, _, value = change.partition("=")
        *parents, last = name.split(".")
        place = values
        for parent in parents:
            place = place[parent]
        place[last] = yaml.safe_load(value)
    spec = load_config(path.parent / values.pop("model")).model
    sizes = {
        key: tuple(size) if isinstance(size, list) else size for key, size in values.pop("sizes").items()
    }
    teacher = values.pop("teacher")
    return Recipe(
        spec=replace(spec, **sizes),
        vectors=tuple(values.pop("vectors")),
        sets={name: Source(**source) for name, source in values.pop("sets").items()},
        unlabelled=Source(**values.pop("unlabelled")),
        teacher=Teacher(fit=Fit(**teacher.pop("fit")), **teacher),
        openers=tuple(values.pop("openers")),
        connectors=tuple(values.pop("connectors")),
        distil=Fit(**values.pop("distil")),
        calibration=tuple(values.pop("calibration")),
        **values,
    )
