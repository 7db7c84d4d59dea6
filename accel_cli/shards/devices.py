"""Which device each worker of a run has."""

from __future__ import annotations

from accel_cli.cuda.device import choose, cupy, names_several
from accel_cli.engines.open import device_for
from accel_cli.errors import UsageError
from accel_cli.model.config import PlanSpec


def devices_of(wanted: PlanSpec, device: str, workers: int | None = None) -> list[str]:
    """The device of each worker, "cpu" or "cuda:N": those named, or `workers` times the one named.

    A GPU that is named twice has two workers. Raises DeviceError if one is not there, UsageError if
    both several devices and a number of workers are given.
    """
    if not names_several(device):
        return [device_for(wanted, device)] * (workers or 1)
    if workers is not None:
        raise UsageError(
            f"--workers {workers} --device {device}: each GPU named has one worker; leave out --workers,"
            " and name a GPU twice for two workers on it"
        )
    named = device.removeprefix("cuda:")
    if named == "all":
        choose("cuda")
        return [f"cuda:{index}" for index in range(cupy().cuda.runtime.getDeviceCount())]
    return [choose(f"cuda:{index}") for index in named.split(",")]
