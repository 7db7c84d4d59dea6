"""The recipe: the training configuration, read from YAML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from accel_cli.model.config import ModelSpec, load_config


@dataclass(frozen=True)
class Source:
    """How a data set takes part; sentiment.yaml explains the numbers. `rows` limits it, 0 does not."""

    weight: float
    smoothing: float = 0.0
    trust: float = 0.0
    rows: int = 0


@dataclass(frozen=True)
class Fit:
    """How one network is trained."""

    epochs: int
    batch: int
    rate: float
    decay: float
    averaging: float
    word_dropout: float
    embedding_dropout: float
    feature_dropout: float
    members: int = 1


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, the data aside."""

    spec: ModelSpec
    seed: int
    vectors: tuple[str, ...]
    sets: dict[str, Source]
    unlabelled: Source
    spans: Source
    ensemble: Fit
    distil: Fit

    @property
    def sources(self) -> dict[str, Source]:
        """Every source of training texts, in the order in which they are kept."""
        return {**self.sets, "unlabelled": self.unlabelled, "spans": self.spans}


def load_recipe(path: Path) -> Recipe:
    """Read a recipe; the model's configuration is found relative to it."""
    values = yaml.safe_load(path.read_text("utf-8"))
    return Recipe(
        spec=load_config(path.parent / values.pop("model")).model,
        seed=values.pop("seed"),
        vectors=tuple(values.pop("vectors")),
        sets={name: Source(**source) for name, source in values.pop("sets").items()},
        unlabelled=Source(**values.pop("unlabelled")),
        spans=Source(**values.pop("spans")),
        ensemble=Fit(**values.pop("ensemble")),
        distil=Fit(**values.pop("distil")),
        **values,
    )
