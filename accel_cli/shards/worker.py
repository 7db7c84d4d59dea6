"""One worker: a model on a device, and part files made with it, shard after shard."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from accel_cli.classifier import Classifier
from accel_cli.pipeline import Pipeline, Summary
from accel_cli.shards.files import replaced, sync, writing
from accel_cli.shards.job import Job
from accel_cli.shards.part import HIDDEN, Parts
from accel_cli.shards.shard import Shard
from accel_cli.text.writers import write_all

Progress = Callable[[int, int], None]  # sentences written and bytes read of the shard so far


@dataclass(frozen=True)
class Draft:
    """All rows of a part, in a file that does not have its name yet; one that is let go is gone."""

    _shard: Shard
    _parts: Parts
    _summary: Summary
    _temporary: str
    _naming: ExitStack  # whose end syncs and renames

    def finish(self) -> Summary:
        """Sync the part and give it its name, from any thread; once. Raises OutputError."""
        number = self._shard.number
        with self._naming:
            with writing(self._parts.path(number)):
                size = os.path.getsize(self._temporary)
            self._parts.keep_counts(number, self._summary, size)
        folder = self._parts.folder
        sync(folder / HIDDEN)
        sync(folder)
        return self._summary


class ShardWorker:
    """The model of a job, loaded once on a device (auto, cpu, cuda or cuda:N). Raises AccelError."""

    def __init__(self, job: Job, device: str = "auto") -> None:
        self._job = job
        self._parts = Parts(job.output, job.layout)
        self._classifier = Classifier(job.config, device, embeddings=job.embeddings)

    @property
    def plan(self) -> str:
        """How the model runs."""
        return str(self._classifier.plan)

    def write(self, shard: Shard, progress: Progress = lambda sentences, read: None) -> Draft:
        """Write the rows of a shard's part, which has its name once the draft is finished.

        That may run beside the next shard, since a disk is slower than a GPU. Doing a shard again changes
        nothing. Raises InputError for a bad record that the job does not replace, OutputError, DeviceError.
        """
        source, path = shard.source(self._job.kept), self._parts.path(shard.number)
        with ExitStack() as stack:
            temporary = stack.enter_context(replaced(path))
            with opened(temporary, path) as file:
                pipeline = Pipeline(
                    self._classifier,
                    self._job.formatter([source]),
                    lambda rows: _write(file, rows, path),
                    self._job.on_error,
                    lambda summary: progress(summary.sentences, source.done),
                )
                summary = pipeline.run([source])
            return Draft(shard, self._parts, summary, temporary, stack.pop_all())

    def close(self) -> None:
        """Release the device."""
        self._classifier.close()

    def __enter__(self) -> ShardWorker:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


@contextmanager
def opened(temporary: str, part: Path) -> Iterator[io.FileIO]:
    """The file of a part's rows. OutputError if it cannot be opened or closed; other errors pass."""
    with writing(part):
        file = io.FileIO(temporary, "w")
    try:
        yield file
    finally:
        with writing(part):  # a file system of a network tells late that it is full
            file.close()


def _write(file: io.FileIO, rows: bytes, part: Path) -> None:
    with writing(part):
        write_all(file, rows)
