"""Where the time of a start goes: a clock that loading tells of each part that has ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Protocol


class Staged(Protocol):
    """Who is told that a part of loading has ended."""

    def __call__(self, name: str, kernels: float = 0.0) -> None:
        """`kernels` are the seconds that loading and compiling kernels has taken so far."""
        ...


def unwatched(name: str, kernels: float = 0.0) -> None:
    """Nobody is."""


@dataclass(frozen=True)
class StartStage:
    """A part of a start, the seconds it took, and what happened in it, if that varies."""

    name: str
    seconds: float
    note: str = ""

    def as_json(self, whole: float) -> dict[str, Any]:
        """The stage as it is published, and its share of `whole` seconds."""
        percent = round(100 * self.seconds / whole, 1) if whole else 0.0
        return {"stage": self.name, "seconds": round(self.seconds, 6), "percent": percent, "note": self.note}


class StageClock:
    """Takes the time from one stage to the next, without what kernels took in between."""

    def __init__(self, begin: float | None = None) -> None:
        self.stages: list[StartStage] = []
        self._last = time.monotonic() if begin is None else begin
        self._kernels = 0.0

    def __call__(self, name: str, kernels: float = 0.0) -> None:
        """The end of a stage."""
        now, kernels = time.monotonic(), max(kernels, self._kernels)
        self.stages.append(StartStage(name, now - self._last - (kernels - self._kernels)))
        self._last, self._kernels = now, kernels

    def note(self, name: str, note: str) -> None:
        """Say what happened in a stage."""
        self.stages = [replace(each, note=note) if each.name == name else each for each in self.stages]

    def with_kernels(self, loading: Any) -> list[StartStage]:
        """The stages so far, and that of an engine's `loading` of kernels where there is such a thing."""
        if loading is None:
            return self.stages
        note = f"{loading.kernels} loaded, {loading.compiled} of them compiled"
        return [*self.stages, StartStage("kernels", loading.seconds, note)]


def seconds(stages: list[StartStage], *but: str) -> float:
    """Of all stages, but some."""
    return sum(stage.seconds for stage in stages if stage.name not in but)
