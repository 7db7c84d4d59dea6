"""Folded tables by numpy: what each word adds at each tap, stored as a kernel reads it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from host_cuda.backends import Backend

from accel_cli.kernels.folded_layout import TABLE_DTYPES, Layout, Table, TableType, slice_of
from kernels.ragged import windows


def sliced(rows: np.ndarray, table: TableType) -> np.ndarray:
    """rows [width, words, filters] as they lie: [slices, words, width, slice], flat, with zeros behind."""
    size = slice_of(table, rows.shape[2])
    rows = np.pad(rows, [(0, 0), (0, 0), (0, -rows.shape[2] % size)])
    width, words, columns = rows.shape
    return rows.reshape(width, words, columns // size, size).transpose(2, 1, 0, 3).ravel()


def scaled(product: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """lowest [width, filters], scale [filters] and what is added to a sum [filters]."""
    lowest = product.min(axis=1)
    ranges = (product.max(axis=1).astype(np.float64) - lowest).sum(axis=0)
    return lowest, (ranges / (65535 - len(product))).astype(np.float32), bias + lowest.sum(axis=0)


def stored(product: np.ndarray, bias: np.ndarray, table: TableType) -> tuple[np.ndarray, ...]:
    """product [width, words, filters] in the table's type, the scale and what is added [filters]."""
    if table != TableType.FIXED:
        return product.astype(TABLE_DTYPES[table]), np.ones_like(bias), bias
    lowest, scale, after = scaled(product, bias)
    steps = (product - lowest[:, None]) / np.where(scale > 0, scale, 1)
    return np.rint(steps).astype(np.uint16), scale, after


def table_of(
    backend: Backend, products: Sequence[np.ndarray], biases: Sequence[np.ndarray], kind: TableType
) -> Table:
    """A table on the backend of products [width, words, filters] in float32, one for each width."""
    _, words, filters = products[0].shape
    layout = Layout(kind, words, tuple(len(product) for product in products), filters)
    parts = [stored(product, bias, kind) for product, bias in zip(products, biases, strict=True)]
    values = np.concatenate([sliced(rows, kind) for rows, _, _ in parts])
    scale, after = (np.concatenate([part[i] for part in parts]).astype(np.float32) for i in (1, 2))
    arrays = [backend.array(a) for a in (values, np.array(layout.taps, np.int32), after, scale)]
    return Table(layout, *arrays)


def pooled(
    products: Sequence[np.ndarray], biases: Sequence[np.ndarray], ids: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """The features, in float64."""
    columns = []
    for product, bias in zip(products, biases, strict=True):
        rows, taps = product.astype(np.float64), np.arange(len(product))
        features = np.zeros((len(offsets) - 1, len(bias)))
        for sentence, first, count in windows(offsets, len(product)):
            sums = np.stack([rows[taps, ids[first + t + taps]].sum(axis=0) for t in range(count)])
            features[sentence] = np.maximum(sums + bias, 0).max(axis=0)
        columns.append(features)
    return np.concatenate(columns, axis=1)
