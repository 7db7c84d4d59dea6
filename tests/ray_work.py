"""A job in three shards, an actor that does them in this process, as the driver would hear it, and no Ray."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def no_ray(address: str | Exception, noted: str | None = None, **more: Any) -> SimpleNamespace:
    """What stands for the module `ray`: all is well, unless `more` says else. `auto` finds an address."""

    def look(*_: object) -> str:
        if isinstance(address, Exception):
            raise address
        return address

    services = SimpleNamespace(get_ray_address_from_environment=look, find_bootstrap_address=lambda _: noted)
    ray = {
        "_private": SimpleNamespace(services=services),
        "_raylet": SimpleNamespace(GcsClient=lambda address: None),
        "exceptions": SimpleNamespace(RayError=type("RayError", (Exception,), {})),
        "init": lambda **how: None,
        "shutdown": lambda: None,
    }
    return SimpleNamespace(**(ray | more))
