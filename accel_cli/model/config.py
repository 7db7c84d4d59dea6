"""Configurations: a YAML file names a model and how to run it; here it becomes frozen dataclasses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import Any

from accel_cli import resources
from accel_cli.errors import ConfigError, UsageError
from accel_cli.model.fields import Section, nearest
from accel_cli.model.fully_connected import read_fully_connected
from accel_cli.model.yaml_file import read_yaml

MODEL_FILE = "model.yaml"  # a folder with such a file is a model
MOST = {"batch": 1 << 20, "streams": 64}
# What a plan may say, key by key; `auto` leaves the choice to the device.
CHOICES = {
    "device": ("cpu", "cuda"),
    "precision": ("fp32", "fp32-split", "tf32", "fp16", "bf16"),
    "convolution": ("direct", "im2col", "implicit", "toomcook", "folded"),
    "experts": ("separate", "folded"),
    "gemm": ("naive", "tiled", "sgemm", "mma", "wgmma"),
    "epilogue": ("separate", "fused"),
    "copies": ("pageable", "pinned"),
    "allocation": ("per_call", "once"),
    "order": ("in_turn", "side_by_side"),
    "launch": ("stream", "graph"),
}


@dataclass(frozen=True)
class ModelSpec:
    """The shape of a network and the files that belong to it.

    `length` is the fixed number of tokens of a sentence, or None when sentences are ragged and hold
    `widest` to `max_tokens` tokens. `weights` is a file, or None when they are generated from `seed`.
    `residual` has the numbers of the fully connected layers with a shortcut, y = relu(W x + b) + x.
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
    residual: tuple[int, ...] = ()

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

    `batch` and `streams` are 0 when they are left open. `kernel_debug` and `kernels`, a folder of ready ones,
    are of the command line alone.
    """

    device: str = "auto"
    precision: str = "auto"
    convolution: str = "auto"
    experts: str = "auto"
    gemm: str = "auto"
    epilogue: str = "auto"
    copies: str = "auto"
    allocation: str = "auto"
    order: str = "auto"
    launch: str = "auto"
    batch: int = 0
    streams: int = 0
    kernel_debug: str = ""
    kernels: str = ""

    def overridden(self, **asked: Any) -> PlanSpec:
        """This plan with the keys that are not None laid over it; UsageError if a size is none."""
        changes = {key: value for key, value in asked.items() if value is not None}
        for key, most in MOST.items():
            size = changes.get(key, 1)
            whole = isinstance(size, Integral) and not isinstance(size, bool)
            if not whole or not 1 <= size <= most:
                raise UsageError(
                    f"{key} must be a whole number from 1 to {most}, got {size!r}; leave it out for the"
                    " device's default"
                )
            if key in changes:
                changes[key] = int(size)
        return replace(self, **changes)


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
PLAN_KEYS = (*CHOICES, *MOST)


def find_config(name: str | Path, folder: Path | None = None) -> Path:
    """The file behind `name`: a bare name is a packaged one's; else a file, or a folder with a model.yaml.

    Paths start at `folder`, or the current one. A file that has a packaged one's name is found as ./name.
    """
    text = os.path.expanduser(name)  # unlike Path.expanduser, takes a user that is not there
    path = (folder or Path()) / text
    bare = os.sep not in text and path.suffix not in (".yaml", ".yml")
    packed = [resources.CONFIGS / f"{text}.yaml"] if bare else []
    if text and "\0" not in text:
        for file in (*packed, path, path / MODEL_FILE):
            if file.is_file():
                return file.resolve()
    if bare:
        raise ConfigError(f"no packaged configuration {text!r}; {nearest(text, packaged())}")
    raise ConfigError(f"no configuration file {path}; packaged ones: {', '.join(packaged())}")


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
    section = Section(path, read_yaml(path))
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
    try:
        parent = find_config(section.text("extends"), path.parent)
    except ConfigError as error:
        raise ConfigError(f"{path}: extends: {error}") from error
    base = _read(parent, (*readers, path))
    if model.values.get("length", "ragged") != "ragged" and base.get("model"):
        base["model"].pop("max_tokens", None)  # that of sentences of any length, which these are not
    return _overlay(base, own)


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
    expert_hidden = section.integer("expert_hidden")
    outputs, residual = read_fully_connected(section, expert_hidden)
    spec = ModelSpec(
        tokenizer=section.choice("tokenizer", ("words",), "words"),
        vocabulary=section.path_to("vocabulary"),
        vocabulary_size=section.integer("vocabulary_size", least=2, most=(1 << 31) - 1),
        length=length,
        max_tokens=length or section.integer("max_tokens", 256),
        embedding=section.integer("embedding"),
        widths=widths,
        filters=section.integer("filters"),
        experts=section.integer("experts"),
        expert_hidden=expert_hidden,
        fully_connected=outputs,
        labels=section.texts("labels"),
        weights=section.path_to("weights") if isinstance(section.values.get("weights"), str) else None,
        seed=_seed(section),
        golden=section.path_to("golden") if section.values.get("golden") is not None else None,
        residual=residual,
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
    return generated.integer("seed", least=0, most=(1 << 64) - 1)


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
    chosen = {key: section.choice(key, ("auto", *choices), "auto") for key, choices in CHOICES.items()}
    return PlanSpec(**chosen, batch=_size(section, "batch"), streams=_size(section, "streams"))


def _size(section: Section, key: str) -> int:
    if section.values.get(key, "auto") == "auto":
        return 0
    try:
        return section.integer(key, most=MOST[key])
    except ConfigError:
        raise section.fail(key, f"'auto' or a whole number from 1 to {MOST[key]}") from None
