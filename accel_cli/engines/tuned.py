"""What tuning found best on a device: a small file, shipped in configs/tuned/ or the user's in the cache."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from accel_cli import resources
from accel_cli.cuda.device import DeviceFacts
from accel_cli.errors import AccelWarning, ConfigError
from accel_cli.kernels.sgemm_tile import STEP, Tile, shared_limit
from accel_cli.model.config import MOST, ModelSpec
from accel_cli.model.fields import Section
from accel_cli.model.yaml_file import read_yaml

_REACH = 4.0  # a tile serves products of up to so many times the rows it was found for, or as much fewer
_MOST_ROWS = 1 << 40
_HEAD = """\
# What `accel tune` found fastest on this device (see docs/tuning.md); a line for each matrix product,
# tile: [block rows, columns, step along k, thread rows, columns, stages].
"""


# What a product's kernel does beside multiplying. The fastest tile for one need not be so for another: words
# that recur lie in a cache, embeddings come from memory.
Kind: TypeAlias = Literal[
    "plain",  # little
    "windows",  # finds windows of embedded words and takes maxima
    "ids",  # the same, with words gathered by their ids
    "experts",  # weighs experts
]


@dataclass(frozen=True)
class Product:
    """`batch` matrix products of [rows, depth] and [depth, columns], of a kind."""

    rows: int
    columns: int
    depth: int
    batch: int = 1
    kind: Kind = "plain"

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.rows * self.columns * self.depth

    def __str__(self) -> str:
        times = f"{self.batch} x " if self.batch > 1 else ""
        of = "" if self.kind == "plain" else f" of {self.kind}"
        return f"{times}{self.rows}x{self.columns}x{self.depth}{of}"

    def alike(self, other: Product) -> bool:
        """Whether they differ in nothing but rows."""
        return replace(self, rows=other.rows) == other


@dataclass(frozen=True)
class Winner:
    """The fastest tile for a product, and how fast it was, in 10^12 operations a second."""

    product: Product
    tile: Tile
    tflops: float


@dataclass(frozen=True)
class Sizes:
    """The batch and the streams with which a network is fastest, and how fast that was."""

    network: str
    convolution: str
    batch: int
    streams: int
    sentences_per_s: float


@dataclass(frozen=True)
class Tuned:
    """All that is known of one device."""

    device: str
    products: tuple[Winner, ...] = ()
    plans: tuple[Sizes, ...] = ()

    def nearest(self, wanted: Product) -> Tile | None:
        """The tile of the nearest number of rows, by their ratio; None if none is within reach."""
        alike = [(_apart(one.product, wanted), one.tile) for one in self.products]
        found = min(alike, key=lambda pair: pair[0], default=None)
        return found[1] if found is not None and found[0] <= _REACH else None

    def tiles(self, wanted: Product) -> list[Tile]:
        """Those found for such products, whatever their rows."""
        return [one.tile for one in self.products if one.product.alike(wanted)]

    def sizes(self, spec: ModelSpec, convolution: str) -> Sizes | None:
        """What was found for a network under a plan's convolution."""
        name = network(spec)
        return next(
            (one for one in self.plans if (one.network, one.convolution) == (name, convolution)), None
        )

    def joined(self, newer: Tuned) -> Tuned:
        """Both, the newer one's findings in the place of older ones of the same product or network."""
        products = {one.product: one for one in (*self.products, *newer.products)}
        plans = {(one.network, one.convolution): one for one in (*self.plans, *newer.plans)}
        return Tuned(newer.device, tuple(products.values()), tuple(plans.values()))

    def text(self) -> str:
        """The file."""
        lines = [f"device: {json.dumps(self.device)}", "products:" if self.products else "products: []"]
        for one in sorted(self.products, key=lambda one: -one.product.flop):
            fields = ", ".join(f"{key}: {value}" for key, value in vars(one.product).items())
            lines.append(f"  - {{{fields}, tile: {numbers(one.tile)}, tflops: {one.tflops:.1f}}}")
        lines.append("plans:" if self.plans else "plans: []")
        for plan in self.plans:
            lines += [
                f"  - network: {plan.network}",
                f"    convolution: {plan.convolution}",
                f"    batch: {plan.batch}",
                f"    streams: {plan.streams}",
                f"    sentences_per_s: {plan.sentences_per_s:.0f}",
            ]
        return _HEAD + "\n".join(lines) + "\n"


def numbers(tile: Tile) -> list[int]:
    """A tile as files and messages show it."""
    return [*vars(tile).values()]


def network(spec: ModelSpec) -> str:
    """A network's sizes, as one word by which a file knows it."""
    parts = (
        (spec.length or "ragged", spec.embedding),
        (*spec.widths, spec.filters),
        (spec.experts, spec.expert_hidden),
        spec.fully_connected,
    )
    return "/".join("x".join(map(str, part)) for part in parts)


def shipped_file(device: DeviceFacts) -> Path:
    """Where the file that comes with accel lies, if there is one for this device."""
    return resources.CONFIGS / "tuned" / f"{_slug(device)}.yaml"


def own_file(device: DeviceFacts) -> Path:
    """Where `accel tune` leaves what it found here."""
    return resources.cache_folder() / "tuned" / f"{_slug(device)}.yaml"


def findings(device: DeviceFacts) -> Iterator[Tuned]:
    """The user's own, then the shipped ones. A damaged file is left out, with an AccelWarning."""
    for path in (own_file(device), shipped_file(device)):
        if os.path.exists(path):  # unlike the path's own, is silent about folders that cannot be read
            try:
                yield load_tuned(path, device)
            except ConfigError as error:
                warnings.warn(
                    f"{error}. The file is left out and what it says is chosen by rule; run `accel tune` to"
                    " make it anew, or remove it",
                    AccelWarning,
                    stacklevel=1,  # one place for all who ask, so that it is said once
                )


def findings_for(device: DeviceFacts) -> Iterator[Tuned]:
    """Of every device that there is a file of, whatever its name, where its tiles suit `device`."""
    for path in sorted(
        (*own_file(device).parent.glob("*.yaml"), *shipped_file(device).parent.glob("*.yaml"))
    ):
        with suppress(ConfigError):  # another kind of device, or damaged, which is said where it is used
            name = Section(path, read_yaml(path)).text("device")
            yield load_tuned(path, replace(device, name=name))


def load_tuned(path: Path, device: DeviceFacts) -> Tuned:
    """Read a file; ConfigError if it is none, is another device's, or names a tile that cannot work."""
    top = Section(path, read_yaml(path))
    top.known(("device", "products", "plans"))
    if top.text("device") != device.name:
        raise top.fail("device", f"{device.name!r}, the one that is here")
    products = tuple(_winner(one, device) for one in _each(top, "products"))
    return Tuned(device.name, products, tuple(map(_sizes, _each(top, "plans"))))


def _slug(device: DeviceFacts) -> str:
    return re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")


def _apart(known: Product, wanted: Product) -> float:
    """How many times the rows of one are those of the other; infinite if they differ in more."""
    if not known.alike(wanted):
        return math.inf
    return max(known.rows / wanted.rows, wanted.rows / known.rows)


def _each(top: Section, key: str) -> Iterable[Section]:
    values = top.values.get(key, [])
    if not isinstance(values, list):
        raise top.fail(key, "a list")
    return [Section(top.path, value, f"{key}[{number}].") for number, value in enumerate(values)]


def _winner(section: Section, device: DeviceFacts) -> Winner:
    section.known(("rows", "columns", "depth", "batch", "kind", "tile", "tflops"))
    sizes = {
        key: section.integer(key, most=_MOST_ROWS, default=1 if key == "batch" else None)
        for key in ("rows", "columns", "depth", "batch")
    }
    product = Product(**sizes, kind=_kind(section))
    values = section.integers("tile")
    if len(values) != 6 or STEP % values[2] or not Tile(*values).legal(shared_limit(device.capability)):
        raise section.fail("tile", "one of six numbers that this device takes")
    return Winner(product, Tile(*values), _positive(section, "tflops"))


def _kind(section: Section) -> Kind:
    named = section.values.get("kind", "plain")
    for kind in get_args(Kind):
        if named == kind:
            return kind  # type: ignore[no-any-return]
    raise section.fail("kind", f"one of {', '.join(get_args(Kind))}")


def _sizes(section: Section) -> Sizes:
    section.known(("network", "convolution", "batch", "streams", "sentences_per_s"))
    batch, streams = (section.integer(key, most=MOST[key]) for key in ("batch", "streams"))
    words = section.text("network"), section.text("convolution")
    return Sizes(*words, batch, streams, _positive(section, "sentences_per_s"))


def _positive(section: Section, key: str) -> float:
    value = section.values.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise section.fail(key, "a number of 0 or more")
    return float(value)
