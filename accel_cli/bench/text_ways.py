"""Ways to classify a file of text: a program, and the files its rows go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from accel_cli.batches import Ints
from accel_cli.bench.measure import timed
from accel_cli.bench.text_files import TextFile, text_file

_TRIAL = 2 << 20  # bytes that a peer is given first, and twice as many until they take it so long:
_SECONDS = 3.0


@dataclass(frozen=True)
class Way:
    """A program that classifies a text, ready to be timed.

    `model` says whose network it is, `fields` what is in a row. `outputs` are the files that the rows go to,
    in order, none if they go nowhere; `names` what stands in a row for each label, up to a tab or the end.
    `max_error` is the largest of its logits on the sentences that were checked.
    """

    program: str
    model: str
    fields: str
    text: TextFile
    run: Callable[[], object]
    outputs: tuple[Path, ...]
    names: Sequence[bytes]
    max_error: float | None = None

    @property
    def output(self) -> str:
        """Where its rows go."""
        count = len(self.outputs)
        return {0: "nowhere", 1: "file"}.get(count, f"{count} files")

    def clear(self) -> None:
        """Remove what it wrote, so that it writes new files each time."""
        for path in self.outputs:
            path.unlink(missing_ok=True)

    def labels(self) -> Ints:
        """The labels that it wrote, int32 [rows]; -1 for a row that names none."""
        places = {name: place for place, name in enumerate(self.names)}
        return np.fromiter((places.get(name, -1) for name in self._written()), np.int32)

    def _written(self) -> Iterator[bytes]:
        for path in self.outputs:
            with path.open("rb") as file:
                for row in file:
                    yield row.rstrip(b"\n").partition(b"\t")[0]


class Peer(Protocol):
    """Another program that classifies texts, prepared; `versions` of what takes part, each after its name."""

    versions: tuple[str, ...]

    def way(self, text: TextFile) -> Way:
        """How it classifies a text. The files of an earlier way of it may be lost."""
        ...


def share(peer: Peer, folder: Path, lines: Sequence[bytes], most: TextFile) -> Way:
    """Its way with as much of the text `most`, made of `lines`, as takes it a few seconds; warmed up."""
    size = _TRIAL
    while True:
        way = peer.way(text_file(folder / "share.txt", lines, min(size, most.bytes)))
        way.run()
        way.clear()
        seconds, _ = timed(way.run)
        if seconds >= _SECONDS or size >= most.bytes:
            return way
        size *= 2
