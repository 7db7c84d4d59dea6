"""Host twin of kernels_cu/window_max.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS, ROWS = 128, 16

KERNEL = Kernel(
    "window_max",
    (
        Array("y", "float32"),
        Array("owners", "int32"),
        Array("features", "float32", written=True),
        Scalar("windows", "int64"),
        Scalar("filters", "int32"),
        Scalar("first", "int32"),
        Scalar("pitch", "int32"),
    ),
)


def geometry(windows: int, filters: int) -> Launch:
    """A thread for each filter and stretch of ROWS windows."""
    grid = (ceil_div(windows, ROWS), ceil_div(filters, THREADS), 1)
    return Launch(KERNEL, (("THREADS", THREADS), ("ROWS", ROWS)), grid, (THREADS, 1, 1))


def window_max(run: Runner, y: Any, owners: Any, features: Any, column: int) -> None:
    """features [sentences, pitch] from `column` on = ReLU and maximum of y [windows, filters].

    Window w belongs to sentence owners[w]; the features must be zeros before.
    """
    (windows, filters), pitch = y.shape, features.shape[1]
    check_shape("window_max owners", owners.shape, (windows,))
    if not 0 <= column <= pitch - filters:
        raise ValueError(f"window_max: {filters} filters at {column} do not fit into {pitch}")
    run(geometry(windows, filters), y, owners, features, windows, filters, column, pitch)
