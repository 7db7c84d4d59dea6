"""Configurations: a YAML file names a model and how to run it; here it becomes frozen dataclasses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from accel_cli import resources
from accel_cli.errors import ConfigError
from accel_cli.model.fields import Section, nearest

PRECISIONS = ("auto", "fp32")
CONVOLUTIONS = ("auto", "direct", "im2col", "folded")
EXPERTS = ("auto", "separate", "folded")


@dataclass(frozen=True)
class ModelSpec:
    """The shape of a network and the files that belong to it.

    `length` is the fixed number of tokens of a sentence, or None when sentences are ragged and hold
    `widest` to `max_tokens` tokens. `weights` is a file, or None when they are generated from `seed`.
    """

    tokenizer: str
    vocabulary: Path
    vocabulary_size: int
    length: int | None
    max_tokens: int
    embedding: int
    widths: tuple[int, ...]
    filters: int
    experts: int
    expert_hidden: int
    fully_connected: tuple[int, ...]
    labels: tuple[str, ...]
    weights: Path | None
    seed: int
    golden: Path | None

    @property
    def widest(self) -> int:
        """The width of the widest convolution."""
        return max(self.widths)

    @property
    def min_tokens(self) -> int:
        """The tokens that a sentence has at least, `<pad>` filling up."""
        return self.length or self.widest

    @property
    def features(self) -> int:
        """The pooled features of a sentence, over all widths."""
        return len(self.widths) * self.filters

    @property
    def taps(self) -> int:
        """The columns of all convolutions together."""
        return sum(self.widths)


@dataclass(frozen=True)
class PlanSpec:
    """How to run a model, as a configuration or the command line asks for it; `auto` leaves it open.

    `batch` and `streams` are 0 when they are left open.
    """

    precision: str = "auto"
    convolution: str = "auto"
    experts: str = "auto"
    batch: int = 0
    streams: int = 0


@dataclass(frozen=True)
class Config:
    """A named model and the plan asked for."""

    name: str
    path: Path
    model: ModelSpec
    plan: PlanSpec


MODEL_KEYS = (
    "tokenizer",
    "vocabulary",
    "vocabulary_size",
    "length",
    "max_tokens",
    "embedding",
    "widths",
    "filters",
    "experts",
    "expert_hidden",
    "fully_connected",
    "labels",
    "weights",
    "golden",
)
PLAN_KEYS = tuple(field.name for field in fields(PlanSpec))


def find_config(name: str | Path) -> Path:
    """The file behind `name`: a path, or the bare name of a packaged configuration."""
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser, takes a user that is not there
    if path.suffix in (".yaml", ".yml") or path.is_file() or len(path.parts) > 1:
        if path.is_file():
            return path.resolve()
        raise ConfigError(f"no configuration file {path}; packaged ones: {', '.join(packaged())}")
    packed = resources.CONFIGS / f"{name}.yaml"
    if packed.is_file():
        return packed
    raise ConfigError(f"no packaged configuration {str(name)!r}; {nearest(str(name), packaged())}")


def packaged() -> list[str]:
    """The names of the packaged configurations."""
    return sorted(path.stem for path in resources.CONFIGS.glob("*.yaml"))


def load_config(name: str | Path) -> Config:
    """Read the configuration `name`, a path or a packaged name, or raise ConfigError."""
    path = find_config(name)
    values = _read(path, ())
    top = Section(path, values)
    top.known(("name", "model", "plan"))
    return Config(top.text("name", path.stem), path, _model(top.section("model")), _plan(top.section("plan")))


def _read(path: Path, readers: tuple[Path, ...]) -> dict[str, Any]:
    """The mapping in `path`, laid over the one it extends; paths are made absolute on the way."""
    if path in readers:
        raise ConfigError(f"{path}: extends itself through {' -> '.join(str(p) for p in readers)}")
    try:
        values = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: bytes that are not UTF-8, a date of month 13
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{place}: not valid YAML: {problem}") from error
    section = Section(path, values)
    section.known(("name", "model", "plan", "extends"))
    own = {key: value for key, value in section.values.items() if key != "extends"}
    model = section.section("model")
    absolute = {
        key: str(model.path_to(key))
        for key in ("vocabulary", "weights", "golden")
        if isinstance(model.values.get(key), str)
    }
    if absolute:
        own["model"] = {**model.values, **absolute}
    if "extends" not in section.values:
        return own
    base = section.text("extends")
    beside = path.parent / base
    try:
        parent = beside.resolve() if beside.is_file() else find_config(base)
    except ConfigError as error:
        raise ConfigError(f"{path}: extends: {error}") from error
    return _overlay(_read(parent, (*readers, path)), own)


def _overlay(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping) and key != "weights"
        merged[key] = _overlay(dict(below or {}), value) if both else value
    return merged


def _model(section: Section) -> ModelSpec:
    section.known(MODEL_KEYS)
    widths = section.integers("widths")
    if len(set(widths)) != len(widths):
        raise section.fail("widths", "a list without repetitions")
    length = _length(section)
    if length is not None and "max_tokens" in section.values:
        raise ConfigError(
            f"{section.path}: model.max_tokens has no meaning when model.length is {length}; remove it"
        )
    spec = ModelSpec(
        tokenizer=section.choice("tokenizer", ("words",), "words"),
        vocabulary=section.path_to("vocabulary"),
        vocabulary_size=section.integer("vocabulary_size", least=2),
        length=length,
        max_tokens=length or section.integer("max_tokens", 256),
        embedding=section.integer("embedding"),
        widths=widths,
        filters=section.integer("filters"),
        experts=section.integer("experts"),
        expert_hidden=section.integer("expert_hidden"),
        fully_connected=section.integers("fully_connected"),
        labels=section.texts("labels"),
        weights=section.path_to("weights") if isinstance(section.values.get("weights"), str) else None,
        seed=_seed(section),
        golden=section.path_to("golden") if section.values.get("golden") is not None else None,
    )
    _check_sizes(section.path, spec)
    return spec


def _length(section: Section) -> int | None:
    if section.values.get("length", "ragged") == "ragged":
        return None
    try:
        return section.integer("length")
    except ConfigError:
        raise section.fail("length", "'ragged' or a positive whole number") from None


def _seed(section: Section) -> int:
    """The seed of generated weights; 0 when a file is named."""
    if isinstance(section.values.get("weights"), str):
        return 0
    if not isinstance(section.values.get("weights"), Mapping):
        raise section.fail("weights", "a file, or `seed: N` for generated weights")
    generated = section.section("weights")
    generated.known(("seed",))
    return generated.integer("seed", least=0)


def _check_sizes(path: Path, spec: ModelSpec) -> None:
    if spec.max_tokens < spec.widest:
        key = "max_tokens" if spec.length is None else "length"
        raise ConfigError(
            f"{path}: model.{key} is {spec.max_tokens}, under the widest convolution of {spec.widest};"
            f" raise it to {spec.widest} or more"
        )
    if spec.fully_connected[-1] != len(spec.labels):
        raise ConfigError(
            f"{path}: model.fully_connected ends in {spec.fully_connected[-1]} outputs but model.labels"
            f" has {len(spec.labels)}; they must agree"
        )


def _plan(section: Section) -> PlanSpec:
    section.known(PLAN_KEYS)
    return PlanSpec(
        precision=section.choice("precision", PRECISIONS, "auto"),
        convolution=section.choice("convolution", CONVOLUTIONS, "auto"),
        experts=section.choice("experts", EXPERTS, "auto"),
        batch=_size(section, "batch"),
        streams=_size(section, "streams"),
    )


def _size(section: Section, key: str) -> int:
    if section.values.get(key, "auto") == "auto":
        return 0
    try:
        return section.integer(key)
    except ConfigError:
        raise section.fail(key, "'auto' or a positive whole number") from None
