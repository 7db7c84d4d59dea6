"""`accel run` into a folder: shards by one or more workers, gone on with where a run was cut short."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from accel_cli.commands.folder_options import Sharding
from accel_cli.commands.options import say
from accel_cli.commands.progress import Progress
from accel_cli.commands.run_rows import PipeClosed, report, writer
from accel_cli.errors import AccelError, InputError, RecordError, UsageError
from accel_cli.pipeline import Summary
from accel_cli.shards.devices import devices_of
from accel_cli.shards.folder import OutputFolder, whole
from accel_cli.shards.job import Job
from accel_cli.shards.local import run_locally
from accel_cli.shards.manifest import Manifest, input_of
from accel_cli.shards.merge import merged_rows
from accel_cli.shards.part import Parts, total
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.shards.tally import Tally
from accel_cli.text.readers import Source
from accel_cli.text.urls import is_url
from accel_cli.text.writers import opened_output

if TYPE_CHECKING:
    from accel_cli.shards.ray_cluster import Cluster

# Bytes of a shard: seconds of work, so that a run that is cut short loses little.
_SHARD_ON_CPU, _SHARD_ON_GPU = 4 << 20, 256 << 20


def run_folder(job: Job, sources: Sequence[Source], device: str, sharding: Sharding) -> None:
    """Write the part of every shard that has none yet, then merge them if that is asked for."""
    sharding.check()
    _check_inputs(job, sources)
    if sharding.merged is not None and sharding.merged != "-":
        _check_merged(sharding.merged, job.output, sources)
    local = sharding.engine == "local"
    devices = devices_of(job.config.plan, device, sharding.workers) if local else [device]
    with ExitStack() as stack:
        if not local:  # before a folder is made
            from accel_cli.shards.ray_cluster import Cluster

            cluster = stack.enter_context(Cluster(sharding.address or "auto"))
        folder = stack.enter_context(OutputFolder.opened(job.output))
        merged = None
        if sharding.merged is not None:  # before anything is done that would be in vain
            merged = stack.enter_context(opened_output(sharding.merged, sharding.overwrite))
        manifest, shards, parts = _begun(job, folder, sources, devices[0], sharding)
        before = whole(parts, shards)
        left = [shard for shard in shards if shard.number not in before]
        there = f", {len(before)} of them done before" if before else ""
        say(f"{len(shards)} shard{'s' * (len(shards) > 1)}{there}")
        begin = time.perf_counter()
        if local:
            run = partial(run_locally, job, left, devices, lock=folder.lock)
        else:
            run = partial(_on_ray, cluster, job, left, device)
        written = _watched(run, left, parts, shards) if left else {}
        found = replace(total(before | written), seconds=time.perf_counter() - begin)
        report(found, sum(summary.sentences for summary in before.values()))
        _check_unchanged(manifest, sources)
        if merged is not None:
            write = writer(merged, str(sharding.merged))
            with suppress(PipeClosed):
                for piece in merged_rows(job, [parts.path(shard.number) for shard in shards], sources):
                    write(piece)


def _on_ray(cluster: Cluster, job: Job, shards: Sequence[Shard], device: str, tally: Tally) -> None:
    from accel_cli.shards.ray_engine import run_on_ray

    with cluster:  # which is not kept while parts are merged
        run_on_ray(job, shards, device, cluster, tally)


def _check_inputs(job: Job, sources: Sequence[Source]) -> None:
    """Refuse what can be seen to be wrong before anything is done."""
    job.formatter(sources)
    for source in sources:
        if not source.fingerprint():
            raise UsageError(
                f"{source.place} cannot be read a second time, as a retry must; write it to a file first, or"
                " name a file with --output"
            )
        if not is_url(source.path) and _lies_in(source.path, job.output):
            raise UsageError(f"{source.place} lies in the output folder {job.output}; name another one")


def _check_merged(merged: str, output: Path, sources: Sequence[Source]) -> None:
    """UsageError if the merged file would replace an input, or what belongs to the output folder."""
    if _lies_in(merged, output):
        raise UsageError(f"--merge {merged} lies in the output folder {output}; name a file elsewhere")
    target = os.path.realpath(merged)
    if any(os.path.realpath(source.path) == target for source in sources if not is_url(source.path)):
        raise UsageError(f"--merge {merged} is an input too; name another file")


def _lies_in(path: str, folder: Path) -> bool:
    """Whether a path leads into a folder, links followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _check_unchanged(manifest: Manifest, sources: Sequence[Source]) -> None:
    """InputError if an input has changed since its rows were begun."""
    for source, before in zip(sources, manifest.inputs, strict=True):
        if input_of(Source(source.path, source.kind, source.column)) != before:
            raise InputError(
                f"{source.place} changed while it was read; begin again with --overwrite when it does not"
            )


def _begun(
    job: Job, folder: OutputFolder, sources: Sequence[Source], device: str, sharding: Sharding
) -> tuple[Manifest, list[Shard], Parts]:
    """The manifest and the shards of a run, and the folder made ready for their parts."""
    size = sharding.size or (_SHARD_ON_CPU if device == "cpu" else _SHARD_ON_GPU)
    if sharding.resume and sharding.size is None and folder.manifest is not None:
        size = folder.manifest.shard_size
    shards = shards_of(sources, size)
    manifest = Manifest.of(job, sources, size, len(shards))
    parts = folder.begin(manifest, resume=sharding.resume, overwrite=sharding.overwrite)
    return manifest, shards, parts


def _watched(
    run: Callable[[Tally], None], left: Sequence[Shard], parts: Parts, shards: Sequence[Shard]
) -> dict[int, Summary]:
    """Run what is left of shards below a progress bar; say how to go on if that is cut short."""
    read = _Read(left)
    with Progress([read], io.BytesIO()) as progress:

        def show(sentences: int, done: int) -> None:
            read.done = done
            progress.update(Summary(sentences=sentences))

        tally = Tally(say, show)
        try:
            run(tally)
            tally.check()
        except (KeyboardInterrupt, SystemExit, AccelError) as error:
            progress.stop()
            there = f"{len(whole(parts, shards))} of {len(shards)} parts in {parts.folder}"
            say(f"stopped early; {there} are whole; {_remedy(error)}")
            raise
    return tally.written


def _remedy(error: BaseException) -> str:
    if isinstance(error, RecordError):
        return "--resume --on-error replace goes on past bad records; a mended input needs a run of its own"
    if isinstance(error, InputError):
        return "mend the input, then begin again with --overwrite; --resume goes on only if it is as it was"
    return "--resume goes on from there"


@dataclass
class _Read:
    """How much of some shards has been read."""

    shards: Sequence[Shard]
    done: int = 0

    @property
    def size(self) -> int | None:
        """All their bytes."""
        sizes = [shard.size for shard in self.shards]
        return None if None in sizes else sum(size or 0 for size in sizes)
