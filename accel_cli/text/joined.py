"""Texts in one piece, as columns of files hold them, without an object for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt

from accel_cli.batches import TextBatch


class JoinedTexts(Sequence[bytes]):
    """Text i is `data[places[i]:places[i + 1]]`, an object of its own only once it is asked for.

    `places` are int64 [texts + 1], from 0 to the size of `data`.
    """

    def __init__(self, data: bytes, places: npt.NDArray[np.int64]) -> None:
        self._data, self._places = data, places

    @staticmethod
    def of(texts: Iterable[bytes]) -> JoinedTexts:
        """Texts that are objects already."""
        given = list(texts)
        return JoinedTexts(b"".join(given), np.cumsum([0, *map(len, given)], dtype=np.int64))

    def __len__(self) -> int:
        return len(self._places) - 1

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        chosen = range(len(self))[place]
        if isinstance(chosen, range):
            return [self[one] for one in chosen]
        return self._data[self._places[chosen] : self._places[chosen + 1]]

    def __iter__(self) -> Iterator[bytes]:
        return (self._data[start:stop] for start, stop in pairwise(self._places.tolist()))

    def batch(self) -> TextBatch:
        """The same as `TextBatch.of` makes of them."""
        apart = np.frombuffer(self._data.replace(b"\n", b" ").replace(b"\r", b" "), np.uint8)
        return TextBatch(np.insert(apart, self._places[1:], ord("\n")).tobytes(), len(self))
