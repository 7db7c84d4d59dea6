"""One ordered file of all parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from accel_cli.errors import InputError
from accel_cli.shards.job import Job
from accel_cli.text.readers import Source

_BLOCK = 4 << 20  # bytes copied at a time


def merged_rows(job: Job, parts: Sequence[Path], sources: Sequence[Source]) -> Iterator[bytes]:
    """The bytes of one file with the rows of all parts, in order. Raises InputError if one is unreadable."""
    if job.layout == "parquet":
        from accel_cli.text.parquet_merge import merged

        yield from merged([str(part) for part in parts])
        return
    header = job.formatter(sources).header()
    yield header
    for part in parts:
        try:
            with part.open("rb", buffering=0) as file:
                file.seek(len(header))
                while block := file.read(_BLOCK):
                    yield block
        except OSError as error:
            raise InputError(f"cannot read {part}: {error.strerror}") from error
