"""Where the device's time goes, kernel by kernel: each launch between two events, in turn on one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from accel_cli.batches import Batch
from accel_cli.bench.measure import short
from accel_cli.cuda.device import missing
from accel_cli.cuda.stopwatch import Span
from accel_cli.engines.base import Engine

_MOST = 64  # batches; each costs some milliseconds of head start besides


@dataclass(frozen=True)
class KernelTime:
    """All launches of a kernel with the same constants, or all copies of a kind, which have none."""

    name: str
    constants: str
    calls: int
    seconds: float
    share: float

    def as_json(self) -> dict[str, Any]:
        """The row as it is published."""
        return {
            "kernel": self.name,
            "constants": self.constants,
            "calls": self.calls,
            "total_us": short(1e6 * self.seconds),
            "percent": short(100 * self.share),
            "mean_us": short(1e6 * self.seconds / self.calls),
        }


@dataclass(frozen=True)
class Profile:
    """What takes the device's time over so many batches and sentences, the most first."""

    batches: int
    sentences: int
    kernels: list[KernelTime]

    def as_json(self) -> dict[str, Any]:
        """The profile as it is published."""
        kernels = [kernel.as_json() for kernel in self.kernels]
        return {"batches": self.batches, "sentences": self.sentences, "kernels": kernels}


def profile(engine: Engine, batches: Sequence[Batch], tell: Callable[[str], None]) -> Profile | None:
    """The profile of the first batches, 64 at most, after a warm-up on one of them.

    None, said through `tell`, for an engine without kernels.
    """
    if not engine.kernel_times(batches[0]):
        tell(
            f"--profile: {engine.plan.device} has no kernels, so the table of stages is all there is;"
            f" {missing() or 'measure kernels with --device cuda'}"
        )
        return None
    measured = batches[:_MOST]
    tell(f"profiling the kernels of {len(measured)} batches, in turn")
    spans = [span for batch in measured for span in engine.kernel_times(batch)]
    return Profile(len(measured), sum(map(len, measured)), summed(spans))


def summed(spans: Sequence[Span]) -> list[KernelTime]:
    """Spans of the same name and constants together, the most seconds first."""
    found: dict[tuple[str, str], list[float]] = {}
    for span in spans:
        constants = " ".join(f"{name}={value}" for name, value in span.constants)
        found.setdefault((span.name, constants), []).append(span.seconds)
    whole = sum(span.seconds for span in spans) or 1.0  # a clock too coarse to see any
    rows = [
        KernelTime(name, constants, len(seconds), sum(seconds), sum(seconds) / whole)
        for (name, constants), seconds in found.items()
    ]
    return sorted(rows, key=lambda row: -row.seconds)
