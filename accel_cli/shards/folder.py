"""The output folder of a run: begun, gone on with, or overwritten, and never mixed with anything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from accel_cli.errors import OutputError
from accel_cli.pipeline import Summary
from accel_cli.shards.files import remove, sync, writing
from accel_cli.shards.lock import Lock
from accel_cli.shards.manifest import Manifest
from accel_cli.shards.part import HIDDEN, Parts
from accel_cli.shards.shard import Shard
from accel_cli.text.inputs import MANIFEST


class OutputFolder:
    """A folder that this run alone writes to. `lock` is for its workers, which hold it too."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.path = path
        self.lock = lock
        self._file = path / MANIFEST
        self.manifest = Manifest.read(self._file)  # of the run before

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[OutputFolder]:
        """The folder, made if it is not there, until the end of the run.

        Raises OutputError if it holds what no manifest lists, cannot be written, or another run is at
        work in it.
        """
        try:
            if path.is_dir():
                _check_contents(path)
            (path / HIDDEN).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write into {path}: {error.strerror}; name another folder") from error
        with closing(Lock(path / HIDDEN / "lock")) as lock:
            folder = cls(path, lock)
            try:
                yield folder
            finally:
                with suppress(OutputError):  # the next run does it, and says so
                    folder._clean()

    def begin(self, manifest: Manifest, *, resume: bool = False, overwrite: bool = False) -> Parts:
        """Prepare for the parts of a run; those of the run before stay if `resume`, and go if `overwrite`.

        Raises OutputError if there are such parts and neither is said, and if they are not of the same kind.
        """
        self._clean()
        before = self.manifest
        if before is not None and resume:
            if difference := before.difference(manifest):
                raise OutputError(
                    f"{self.path} was begun differently: {difference}; say the same as then, name another"
                    " folder, or begin again with --overwrite instead of --resume"
                )
        elif before is not None:
            self._remove(before, overwrite)
        parts = Parts(self.path, manifest.layout, manifest.model["labels"])
        if before is None or not resume:
            _check_names(parts, manifest.shards)
        manifest.write(self._file)
        sync(self._file.parent)
        sync(self.path)
        self.manifest = manifest
        return parts

    def _remove(self, before: Manifest, overwrite: bool) -> None:
        """Take away the parts that a manifest lists, and nothing else."""
        parts = Parts(self.path, before.layout)
        there = parts.there(before.shards)
        if there and not overwrite:
            raise OutputError(
                f"{self.path} holds {len(there)} of {before.shards} parts of a run before; say --resume to go"
                " on with it, --overwrite to begin again, or name another folder"
            )
        for path in there + parts.counts_there(before.shards):
            remove(path)

    def _clean(self) -> None:
        """Remove what writers left that were killed. Raises OutputError."""
        for folder in (self.path, self.path / HIDDEN):
            with writing(folder):
                for left in folder.glob(".part-[0-9]*.*-*"):
                    remove(left)


def whole(parts: Parts, shards: Sequence[Shard]) -> dict[int, Summary]:
    """What was counted for each part that is there, by its number."""
    found = {shard.number: parts.summary(shard.number) for shard in shards}
    return {number: summary for number, summary in found.items() if summary is not None}


def _check_contents(path: Path) -> None:
    """OutputError if a folder without a manifest holds anything."""
    names = sorted(entry.name for entry in path.iterdir() if entry.name != HIDDEN)
    if names and not (path / MANIFEST).exists():
        raise OutputError(
            f"{path} holds {names[0]} and has no manifest of accel; name a new folder, or an empty one"
        )


def _check_names(parts: Parts, shards: int) -> None:
    """OutputError if a part would replace a file that no manifest listed."""
    if taken := parts.there(shards):
        raise OutputError(f"{taken[0]} is there, but in no manifest; move it away, or name another folder")
