"""Weights as the products read them, by numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accel_cli.model.toomcook import ToomCook
from accel_cli.model.weights import Layer


def pack(weight: np.ndarray) -> np.ndarray:
    """weight [..., N, K] as sgemm reads it: [..., K, N up to a multiple of 4], the rest zeros."""
    packed = weight.swapaxes(-1, -2)
    more = [(0, 0)] * (packed.ndim - 1) + [(0, -packed.shape[-1] % 4)]
    return np.pad(packed, more)


def transform_weights(layers: Sequence[Layer], transform: ToomCook) -> np.ndarray:
    """The convolutions as factors of the products: [products, dimension, columns], computed in float64.

    Columns are the filters of all widths side by side, up to a multiple of 4 with zeros.
    """
    parts = [
        np.einsum("pj,cdj->pcd", matrix, layer.weight.astype(np.float64))
        for layer, matrix in zip(layers, transform.weights, strict=True)
    ]
    return pack(np.concatenate(parts, axis=1)).astype(np.float32)
