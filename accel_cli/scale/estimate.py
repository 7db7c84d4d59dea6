"""The plan in closed form: what each resource would take alone, and which is full first."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from accel_cli.scale.figures import Figures

HOUR = 3600.0


@dataclass(frozen=True)
class Pace:
    """What one unit (a GPU, or a core) does with text. Rates are sentences a second; None is not known."""

    unit: str
    basis: str  # measured or given
    rate: float
    sentence_bytes: float
    slowest: float | None = None
    fastest: float | None = None
    from_ids: float | None = None
    core_seconds: float | None = None
    load_seconds: float = 0.0

    @property
    def text_rate(self) -> float:
        """Bytes of text a second."""
        return self.rate * self.sentence_bytes


def measured(figures: Figures, sentence_bytes: float) -> Pace:
    """The pace of one unit of what was measured; cores are taken to share evenly in it."""
    units = figures.cores if figures.on_cpu else 1
    return Pace(
        figures.unit,
        "measured",
        figures.rate / units,
        sentence_bytes,
        figures.slowest / units,
        figures.fastest / units,
        figures.from_ids / units,
        None if figures.on_cpu else figures.core_seconds,
        figures.load_seconds,
    )


@dataclass(frozen=True)
class Node:
    """One machine: its units, host cores, and bytes a second of its storage and of its network."""

    units: int
    cores: int | None = None
    storage: float | None = None
    network: float | None = None


@dataclass(frozen=True)
class Resource:
    """Something that can be full: the bytes of text a second for which one node's suffices."""

    name: str
    basis: str
    text_rate: float
    slowest: float | None = None
    fastest: float | None = None


def resources(pace: Pace, node: Node, row_bytes: float) -> list[Resource]:
    """All that is known of a node. Rows of `row_bytes` go out, a row a sentence."""
    units, size = node.units, pace.sentence_bytes
    written = row_bytes / size  # bytes a byte of text
    text_rates = [None if rate is None else units * rate * size for rate in (pace.slowest, pace.fastest)]
    found = [Resource("text to rows", pace.basis, units * pace.text_rate, *text_rates)]
    if pace.from_ids is not None:
        found.append(Resource("of that, the model from token ids", "measured", units * pace.from_ids * size))
    if pace.core_seconds is not None and node.cores is not None:
        found.append(Resource("host cores", "measured", node.cores / pace.core_seconds * size))
    if node.storage is not None:  # reads the text, writes the rows
        found.append(Resource("storage", "given", node.storage / (1 + written)))
    if node.network is not None:  # text in, rows out, both at once
        found.append(Resource("network", "given", node.network / max(1.0, written)))
    return found


@dataclass(frozen=True)
class Estimate:
    """So many bytes of text on so many nodes, all of which work all the time and share evenly."""

    text_bytes: float
    resources: list[Resource]
    nodes: int

    @property
    def first(self) -> Resource:
        """What is full first."""
        return min(self.resources, key=lambda resource: resource.text_rate)

    @property
    def hours(self) -> float:
        """How long it takes at that pace."""
        return self.alone(self.first.text_rate)

    def alone(self, text_rate: float) -> float:
        """Hours at so many bytes of text a second a node."""
        return self.text_bytes / (text_rate * self.nodes) / HOUR


def nodes_for(text_bytes: float, text_rate: float, hours: float) -> int:
    """The fewest nodes that take no longer."""
    return max(1, ceil(text_bytes / (text_rate * hours * HOUR)))


@dataclass(frozen=True)
class Fleet:
    """One way to do the work, to be compared by what is paid for: hours of units."""

    name: str
    pace: Pace
    unit_hours: float
    units: int
    price: float | None  # a unit and hour

    @property
    def cost(self) -> float | None:
        """In the price's currency; None without a price."""
        return None if self.price is None else self.unit_hours * self.price


def fleet(name: str, pace: Pace, text_bytes: float, hours: float, price: float | None) -> Fleet:
    """The units of a pace that take `hours` for the text, nothing but them being full."""
    unit_hours = text_bytes / pace.text_rate / HOUR
    return Fleet(name, pace, unit_hours, ceil(unit_hours / hours), price)
