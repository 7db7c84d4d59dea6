"""Host twin of kernels_cu/windows.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "windows",
    (
        Array("offsets", "int32"),
        Array("starts", "int32", written=True),
        Array("owners", "int32", written=True),
        Scalar("sentences", "int32"),
        Scalar("width", "int32"),
        Scalar("step", "int32"),
        Scalar("count", "int64"),
    ),
)


def geometry(sentences: int) -> Launch:
    """One thread a sentence."""
    return elementwise(KERNEL, sentences)


def count_windows(lengths: Any, width: int, step: int = 1) -> int:
    """The windows of `width` tokens, `step` apart, inside sentences of these lengths (on the host)."""
    return int(np.maximum((np.asarray(lengths) - width) // step + 1, 0).sum())


def windows(run: Runner, offsets: Any, width: int, starts: Any, owners: Any, step: int = 1) -> None:
    """starts, owners [windows] = first token and sentence of each window of `width` tokens.

    There are count_windows() of them, inside the sentences that begin at offsets [sentences + 1].
    """
    (ends,), (count,) = offsets.shape, starts.shape
    check_shape("windows owners", owners.shape, (count,))
    if width < 1 or step < 1:
        raise ValueError(f"windows: width {width} and step {step} must be at least 1")
    run(geometry(ends - 1), offsets, starts, owners, ends - 1, width, step, count)
