"""A job in three shards, and an actor that does them in this process, as the driver would hear it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

from accel_cli import __version__
from accel_cli.model.config import Config
from accel_cli.shards.folder import OutputFolder
from accel_cli.shards.job import Job
from accel_cli.shards.manifest import Manifest
from accel_cli.shards.ray_actor import Outcome, ShardActor
from accel_cli.shards.shard import Shard, shards_of
from accel_cli.text.readers import Source


def job_in(config: Config, place: Path) -> Job:
    config = replace(config, plan=config.plan.overridden(streams=1))
    return Job(config, place / "out", on_error="fail")


def shards_in(job: Job, place: Path) -> list[Shard]:
    """Three shards, of which the second has a line that is not UTF-8, and a folder for their parts."""
    path = place / "in.txt"
    path.write_bytes(b"a good film\n" * 10 + b"bad \xff\n" * 20 + b"not\n" * 20)
    sources = [Source(str(path))]
    found = shards_of(sources, 120)
    with OutputFolder.opened(job.output) as folder:
        folder.begin(Manifest.of(job, sources, 120, len(found)))
    return found


def actor(job: Job, version: str = __version__) -> ShardActor:
    return ShardActor(job, "cpu", "CPU", version)


def asked(one: ShardActor, shard: Shard) -> Outcome:
    back: Outcome = pickle.loads(pickle.dumps(one.run(pickle.loads(pickle.dumps(shard)))))
    return back
