"""Compiling what engines launch, on all cores at once: NVRTC takes seconds for one tile of sgemm."""

from __future__ import annotations

import time
from collections.abc import Callable

from accel_cli.bench.ahead import CompileAhead
from accel_cli.cuda.device import DeviceFacts
from accel_cli.engines.tiles import Tiles
from accel_cli.kernels import catalogue, sgemm
from accel_cli.kernels.base import Launch

_PRODUCTS = {"sgemm", "wgmma_gemm", "mma_gemm"}  # of which the catalogue has but a few tiles


def launches(device: DeviceFacts, experts: int) -> list[Launch]:
    """Every tile that may be chosen in all its variants, then all other kernels."""
    width = next((size for size in sgemm.WEIGHED if size >= experts), 1)
    products = [launch for tile in Tiles(device).all() for launch in sgemm.kinds(tile, width)]
    return products + [launch for launch in catalogue.of_engines() if launch.kernel.name not in _PRODUCTS]


def compile_all(
    ahead: CompileAhead, device: DeviceFacts, experts: int, seconds: float, tell: Callable[[str], None]
) -> None:
    """Into the cache. What is not ready in time, or does not compile, shows where it is launched."""
    wanted = launches(device, experts)
    tell(f"compiling {len(wanted)} kernels")
    for _ in ahead.compiled(wanted, time.monotonic() + seconds):
        pass
