"""Running shards on this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from accel_cli.pipeline import Summary
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
    """Run shards one after the other in this process. Raises AccelError at the first that fails.

    The part of a shard is synced while the next one is classified.
    """
    with ShardWorker(job, device) as worker, ThreadPoolExecutor(1, "accel-sync") as thread:
        tally.loaded(worker.plan)
        syncing: deque[tuple[Shard, Future[Summary]]] = deque()
        for shard in shards:
            draft = worker.write(shard, partial(tally.progress, shard))
            _finish(syncing, tally)
            syncing.append((shard, thread.submit(draft.finish)))
        _finish(syncing, tally)


def _finish(syncing: deque[tuple[Shard, Future[Summary]]], tally: Tally) -> None:
    """Wait for the parts that are being synced."""
    while syncing:
        shard, part = syncing.popleft()
        tally.finished(shard, part.result())
