"""Host twin of kernels_cu/text_sums.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar
from accel_cli.kernels.text_common import Count

THREADS = 256
EACH = 16  # values a thread and turn

KERNEL = Kernel(
    "text_sums",
    (
        Array("values", "int32", written=True),
        Array("totals", "int32", written=True),
        Scalar("size", "int32"),
        Scalar("place", "int32"),
    ),
)


def geometry() -> Launch:
    """One block, whatever the number of values."""
    return Launch(KERNEL, (("THREADS", THREADS), ("EACH", EACH)), (1, 1, 1), (THREADS, 1, 1))


def text_sums(run: Runner, values: Any, totals: Any, place: Count) -> None:
    """Each of values [size] becomes the sum of those before it, and totals[place] that of all."""
    (size,), (places,) = values.shape, totals.shape
    if place >= places:
        raise ValueError(f"text_sums: no place {place} among {places} totals")
    run(geometry(), values, totals, size, place)
