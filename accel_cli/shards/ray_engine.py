"""Running shards on a Ray cluster: one actor a GPU, or a slot of CPU."""

from __future__ import annotations

import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from accel_cli import __version__
from accel_cli.errors import AccelWarning, DeviceError, OutputError, UsageError
from accel_cli.shards.files import sync
from accel_cli.shards.job import Job
from accel_cli.shards.part import Parts
from accel_cli.shards.ray_actor import DIED, Failed, Outcome, ShardActor, Unfit, Written
from accel_cli.shards.ray_address import Place, RayError
from accel_cli.shards.ray_cluster import Cluster
from accel_cli.shards.ray_pool import Pool
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally
from accel_cli.shards.tries import Tries

_PATIENCE = 60.0  # seconds until a part that another node wrote is seen here (file systems of networks cache)


@dataclass(frozen=True)
class Slots:
    """What the actors of a cluster run on: how many, on which device, and what each asks Ray for."""

    count: int
    resource: str
    device: str
    request: Mapping[str, Any]


def slots_of(resources: Mapping[str, float], device: str) -> Slots:
    """The slots that a cluster has by its resources, for a device (auto, cpu, cuda).

    GPUs come first, then the resource `accel`, which an administrator defines, then CPUs. Raises
    UsageError, DeviceError if the device cannot be had.
    """
    if device not in ("auto", "cpu", "cuda", "cuda:all"):
        raise UsageError(f"--device {device}: Ray gives out GPUs itself; say auto, cpu or cuda")
    gpus, own, cpus = (int(resources.get(name, 0)) for name in ("GPU", "accel", "CPU"))
    if gpus and device != "cpu":
        return Slots(gpus, "GPU", "cuda", {"num_gpus": 1})
    if device.startswith("cuda"):
        raise DeviceError(f"--device {device}: the cluster has no GPU; add a node with one, or say cpu")
    if own:
        return Slots(own, "accel", "cpu", {"num_cpus": 0, "resources": {"accel": 1}})
    if not cpus:
        raise DeviceError("the cluster has no GPU, no resource `accel` and no CPU; add a node")
    return Slots(cpus, "CPU", "cpu", {"num_cpus": 1})


def run_on_ray(job: Job, shards: Sequence[Shard], device: str, cluster: Cluster, tally: Tally) -> None:
    """Run shards on a Ray cluster.

    All nodes must see the inputs, the model's files and the output folder by the same absolute paths. A
    shard that fails, or whose worker dies, is tried once more after the rest; if that fails too, the tally
    has it. Raises RayError, also where a part cannot be written, UsageError, DeviceError; OutputError for an
    output folder that is not shared.
    """
    job = replace(job, output=job.output.absolute())
    ray = cluster.ray
    slots = slots_of(ray.cluster_resources(), device)
    # an actor that dies is replaced by the pool: Ray would keep its shards for its successor alone
    actor = ray.remote(ShardActor).options(scheduling_strategy="SPREAD", max_concurrency=2, **slots.request)
    begin = partial(actor.remote, job, slots.device, slots.resource, __version__)
    able = partial(_able, ray, Place(ray.get_runtime_context().gcs_address), slots.resource)
    pool = Pool(ray, begin, min(slots.count, len(shards)), partial(_lost, job, tally), able)
    try:
        once = _Round(job, tally, pool.outcomes)
        once.run(once.run(map(_absolute, shards), last=False), last=True)
    finally:
        pool.close()


class _Round:
    """All shards once, by whatever tells their outcomes."""

    def __init__(
        self,
        job: Job,
        tally: Tally,
        outcomes: Callable[[Sequence[Shard]], Iterable[tuple[Shard, Outcome]]],
    ) -> None:
        self._parts, self._tally, self._outcomes = Parts(job.output, job.layout), tally, outcomes
        self._warned: set[str] = set()

    def run(self, shards: Iterable[Shard], *, last: bool) -> list[Shard]:
        """The shards to be tried again; in the `last` round the tally has them as failed."""
        again: list[Shard] = []
        for shard, outcome in self._outcomes(list(shards)):
            if isinstance(outcome, Unfit):
                raise RayError(outcome.reason)
            if isinstance(outcome, Failed):
                if last or outcome.hopeless:
                    self._tally.failed(shard, outcome.reason, outcome.error)
                else:
                    self._tally.retried(shard, outcome.reason)
                    again.append(shard)
                continue
            self._take(shard, outcome)
        return again

    def _take(self, shard: Shard, written: Written) -> None:
        """A part was written."""
        _see(self._parts.path(shard.number), written.worker)
        if written.plan is not None:
            self._tally.loaded(written.plan)
        for message in written.warned:
            if message not in self._warned:  # every actor has the same
                self._warned.add(message)
                warnings.warn(message, AccelWarning, stacklevel=2)
        self._tally.progress(shard, written.summary.sentences, written.read)
        self._tally.finished(shard, written.summary, written.worker, written.ended)


def _able(ray: Any, head: Place, resource: str) -> bool:
    """Whether a node of the cluster has what an actor asks for, free or not."""
    try:
        head.reach()  # else Ray waits for it
    except RayError:
        return False
    return bool(ray.cluster_resources().get(resource, 0) >= 1)


def _lost(job: Job, tally: Tally, shard: Shard) -> None:
    """An actor died that had a shard."""
    if Tries(job.output, shard.number).under_way:  # else it waited, was synced, or has no try left
        tally.retried(shard, DIED)


def _absolute(shard: Shard) -> Shard:
    """The shard by a path that does not depend on where a process was started."""
    return shard if "://" in shard.path else replace(shard, path=os.path.abspath(shard.path))


def _see(part: Path, worker: str) -> None:
    """OutputError if a part that a worker has written is not to be seen from here."""
    until = time.monotonic() + _PATIENCE
    while not os.path.exists(part):
        sync(part.parent)  # which fails at once if the folder is gone
        if worker.startswith(f"{socket.gethostname()}:"):
            raise OutputError(f"{part} was written, but is gone; go on with --resume")
        if time.monotonic() > until:
            raise OutputError(
                f"{part} was written on another node, but is not here; name an output folder that all nodes"
                " of the cluster share"
            )
        time.sleep(0.1)
