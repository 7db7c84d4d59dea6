"""How often a shard was begun, kept where a worker that dies leaves it: beside the counts of the parts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from accel_cli.shards.files import writing
from accel_cli.shards.part import HIDDEN

MOST = 2  # tries of a shard


class Tries:
    """The tries of one shard in an output folder. What is left of them goes when a run begins or ends."""

    def __init__(self, folder: Path, number: int) -> None:
        # a name as those of temporary files, which the folder is cleaned of
        self._marks = [folder / HIDDEN / f".part-{number:06d}.tries-{count}" for count in range(MOST)]

    def begin(self) -> bool:
        """Count one more; False if there were enough. Raises OutputError."""
        for mark in self._marks:
            with writing(mark.parent), suppress(FileExistsError):
                mark.open("x").close()
                return True
        return False

    @property
    def spent(self) -> bool:
        """Whether there were enough."""
        return self._count == MOST

    @property
    def under_way(self) -> bool:
        """Whether there was one that did not come to its end, and may be another."""
        return 0 < self._count < MOST

    def forget(self) -> None:
        """The shard is done."""
        for mark in self._marks:
            mark.unlink(missing_ok=True)

    @property
    def _count(self) -> int:
        return sum(map(os.path.exists, self._marks))
