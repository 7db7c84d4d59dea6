"""A model's labels in the forms in which answers hold them, each made once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from accel_cli.batches import Floats, Ints
from accel_cli.serve.tensors import joined_bytes

_START = '{"score": '


class Labels:
    """The names of a model's labels, in the model's order."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._ends = [f', "label": {json.dumps(name)}}}' for name in names]
        self._elements = np.array([joined_bytes([name.encode()]) for name in names], dtype=object)

    def named(self, chosen: Ints) -> list[str]:
        """The names of labels [n]."""
        names = self._names
        return [names[place] for place in chosen.tolist()]

    def tensor(self, chosen: Ints) -> bytes:
        """The names of labels [n] as a BYTES tensor."""
        return b"".join(self._elements[chosen].tolist())

    def ranked(self, values: Floats, top: int | None = None) -> list[str]:
        """JSON for each row of finite values [n, labels]: the labels and their values, the largest first."""
        rows = []
        for row in values.tolist():
            falling = sorted(zip(row, self._ends, strict=True), key=_falling)[:top]
            rows.append("[" + ", ".join([_START + repr(value) + end for value, end in falling]) + "]")
        return rows


def _falling(entry: tuple[float, str]) -> float:
    return -entry[0]
