"""Running shards on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from accel_cli.shards.job import Job
from accel_cli.shards.lock import Lock
from accel_cli.shards.processes import run_processes
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally
from accel_cli.shards.worker import ShardWorker


def run_locally(job: Job, shards: Sequence[Shard], devices: Sequence[str], tally: Tally, lock: Lock) -> None:
    """Run shards by a worker on each of `devices`: in this process if one is enough.

    Raises AccelError; see `run_processes` for what several workers do about failures.
    """
    needed = devices[: len(shards)]
    if len(needed) > 1:
        run_processes(job, shards, needed, tally, lock)
    elif needed:
        run_here(job, shards, needed[0], tally)


def run_here(job: Job, shards: Sequence[Shard], device: str, tally: Tally) -> None:
    """Run shards one after the other in this process. Raises AccelError at the first that fails."""
    with ShardWorker(job, device) as worker:
        tally.loaded(worker.plan)
        for shard in shards:
            tally.finished(shard, worker.run(shard, partial(tally.progress, shard)))
