"""How often a shard was begun, kept where a worker that dies leaves it: beside the counts of the parts."""

from __future__ import annotations

from pathlib import Path

from accel_cli.shards.part import HIDDEN

MOST = 2  # tries of a shard


class Tries:
    """The tries of one shard in an output folder. What is left of them goes when a run begins or ends."""

    def __init__(self, folder: Path, number: int) -> None:
        # a name as those of temporary files, which the folder is cleaned of
        self._marks = [folder / HIDDEN / f".part-{number:06d}.tries-{count}" for count in range(MOST)]

    def begin(self) -> bool:
        """Count one more; False if there were enough. Raises OSError if nothing can be written there."""
        for mark in self._marks:
            try:
                mark.open("x").close()
                return True
            except FileExistsError:
                continue
        return False

    @property
    def spent(self) -> bool:
        """Whether there were enough."""
        return all(mark.exists() for mark in self._marks)

    def forget(self) -> None:
        """The shard is done."""
        for mark in self._marks:
            mark.unlink(missing_ok=True)
