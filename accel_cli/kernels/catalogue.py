"""Every kernel with every set of constants that the engines compile it with."""

from __future__ import annotations

from accel_cli.kernels import (
    argmax,
    concat,
    conv1d,
    embedding,
    getmax,
    linear,
    relu,
    scale_add,
    softmax,
)
from accel_cli.kernels.base import Launch


def variants() -> list[Launch]:
    """One launch for each variant; the grids are those of a single element."""
    return [
        embedding.geometry(1, 1),
        conv1d.geometry(1, 1),
        relu.geometry(1),
        getmax.geometry(1, 1),
        concat.geometry(1, 1),
        linear.geometry(1, 1),
        softmax.geometry(1),
        scale_add.geometry(1, 1),
        argmax.geometry(1),
    ]
