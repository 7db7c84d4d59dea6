"""What every experiment needs: the device, something that runs kernels on it, and how often to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accel_cli.batches import Floats
from accel_cli.bench.device_clock import device_times
from accel_cli.bench.measure import Timing
from accel_cli.cuda.device import DeviceFacts
from accel_cli.errors import AccelError
from accel_cli.kernels.base import Runner

KERNEL_CLOCK = (
    "one launch on the device, by events around a millisecond of them or one; operands larger than any cache"
)
_PERIOD = 1048583  # a prime: rows do not begin alike


@dataclass(frozen=True)
class Setting:
    """Where an experiment takes place; `device` is the current one."""

    device: str
    gpu: DeviceFacts
    run: Runner
    repeats: int
    tell: Callable[[str], None]

    def timed(self, call: Callable[[], None]) -> Timing:
        """The seconds of one launch on the device."""
        return device_times([call], self.repeats)


def values(shape: tuple[int, ...]) -> Floats:
    """Normal values on the host."""
    return np.resize(np.random.default_rng(1).standard_normal(_PERIOD, np.float32), shape)


def check_same(what: str, found: Floats, expected: Floats) -> None:
    """AccelError unless both are the same, value by value: `what` only moves them."""
    if not np.array_equal(found, expected):
        wrong = int(np.count_nonzero(found != expected))
        raise AccelError(f"not timed, because {what} is wrong: {wrong} of {expected.size} values differ")
