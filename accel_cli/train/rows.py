"""Rows on a device: batches of them, whole or two of them mixed into one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Floats, TokenBatch
from accel_cli.text.vocabulary import PAD
from accel_cli.train.base import Half
from accel_cli.train.examples import Indices

if TYPE_CHECKING:
    from torch import Tensor

Array: TypeAlias = npt.NDArray[Any]

SORTED = 32  # batches that are sorted by length together


@dataclass(frozen=True)
class Rows:
    """Tokenised sentences, the base's features of them, and their labels."""

    batch: TokenBatch
    base: Half
    labels: Indices


class Batch(NamedTuple):
    """Sentences for a step: `ids` [sentences, longest], of which `lengths` count.

    `base` are the base's features [sentences, base widths, base filters], `labels` [sentences, labels]
    the share of each label.
    """

    ids: Tensor
    lengths: Tensor
    base: Tensor
    labels: Tensor


class Resident:
    """Rows on a device, from which padded batches are gathered; `least` is the widest convolution."""

    def __init__(self, rows: Rows, labels: int, least: int, device: str) -> None:
        import torch

        self.lengths = rows.batch.lengths
        self._starts = rows.batch.offsets[:-1].astype(np.int64)
        self._least, self._device = least, device
        self._ids = torch.from_numpy(rows.batch.ids.astype(np.int64)).to(device)
        self._base = torch.from_numpy(rows.base)
        self._labels = torch.eye(labels, device=device)[torch.from_numpy(rows.labels).to(device)]

    def whole(self, rows: Indices) -> Batch:
        """Those rows as they are."""
        return self.mixed(rows, rows, np.ones(len(rows), dtype=np.float32))

    def mixed(self, rows: Indices, others: Indices, shares: Floats) -> Batch:
        """The first tokens of `rows` by `shares`, then the last of `others` by the shares left.

        A label's share is that of its tokens. The base's features are those of `rows`.
        """
        import torch

        first = np.maximum(1, np.rint(self.lengths[rows] * shares)).astype(np.int64)
        second = np.rint(self.lengths[others] * (1 - shares)).astype(np.int64)
        starts = self._starts[rows][:, None]
        # a column past the first part counts from the end of the other row
        ends = (self._starts + self.lengths)[others] - second - first
        lengths = np.maximum(first + second, self._least)
        columns = np.arange(lengths.max())
        places = np.where(columns < first[:, None], starts, ends[:, None]) + columns
        own = torch.from_numpy(columns < (first + second)[:, None]).to(self._device)
        places = np.where(columns < (first + second)[:, None], places, 0)
        ids = self._ids[torch.from_numpy(places).to(self._device)]
        kept = torch.from_numpy((first / (first + second)).astype(np.float32)).to(self._device).unsqueeze(1)
        one, two = (torch.from_numpy(part).to(self._device) for part in (rows, others))
        return Batch(
            torch.where(own, ids, PAD),
            torch.from_numpy(lengths).to(self._device),
            self._base[torch.from_numpy(rows)].to(self._device).float(),
            kept * self._labels[one] + (1 - kept) * self._labels[two],
        )


def batches(lengths: Array, size: int, rng: np.random.Generator) -> Iterator[Indices]:
    """All rows once, in batches of similar length, in random order."""
    rows = rng.permutation(len(lengths))
    chunks = [rows[start : start + SORTED * size] for start in range(0, len(rows), SORTED * size)]
    cut = [
        ordered[start : start + size]
        for chunk in chunks
        for ordered in [chunk[np.argsort(lengths[chunk], kind="stable")]]
        for start in range(0, len(ordered), size)
    ]
    for index in rng.permutation(len(cut)):
        yield cut[index]
