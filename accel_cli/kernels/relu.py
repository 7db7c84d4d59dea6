"""Host twin of kernels_cu/relu.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, elementwise

KERNEL = Kernel("relu", (Array("y", "float32", written=True), Scalar("count", "int64")))


def geometry(count: int) -> Launch:
    """One thread an element."""
    return elementwise(KERNEL, count)


def relu(run: Runner, y: Any) -> None:
    """y = max(y, 0), in place, whatever its shape."""
    run(geometry(y.size), y, y.size)
