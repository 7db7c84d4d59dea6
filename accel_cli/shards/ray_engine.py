"""Running shards on a Ray cluster, by Ray Data: one actor a GPU, or a slot of CPU."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_cli import __version__
from accel_cli.errors import AccelError, AccelWarning, DeviceError, OutputError, UsageError
from accel_cli.shards.job import Job
from accel_cli.shards.part import Parts
from accel_cli.shards.ray_actor import Failed, ShardActor, Unfit, Written, packed, unpacked
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import Tally
from accel_cli.text.extras import imported

_STORE = 80 << 20  # bytes of Ray's object store in this machine; it wants 75 MiB, shards and counts need less
_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception): ")
_AHEAD = 8  # shards of an actor at most, the one at work among them
_PATIENCE = 60.0  # seconds until a part that another node wrote is seen here (file systems of networks cache)


class RayError(AccelError):
    """There is no cluster, or it cannot run workers."""


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


def run_on_ray(job: Job, shards: Sequence[Shard], device: str, address: str, tally: Tally) -> None:
    """Run shards on the Ray cluster at `address` (auto, local, or host:port), which `reach` has tried.

    All nodes must see the inputs, the model's files and the output folder by the same absolute paths. A
    shard that fails, or whose worker dies, is tried once more after the rest; if that fails too, the tally
    has it. Raises RayError, UsageError, DeviceError; OutputError for an output folder that is not shared.
    """
    job = replace(job, output=job.output.absolute())
    with _connected(address) as ray:
        slots = slots_of(ray.cluster_resources(), device)
        again = _Round(ray, job, slots, tally).run(shards, last=False)
        _Round(ray, job, slots, tally).run(again, last=True)


class _Round:
    """All shards through a pool of actors, once."""

    def __init__(self, ray: Any, job: Job, slots: Slots, tally: Tally) -> None:
        self._ray, self._job, self._slots, self._tally = ray, job, slots, tally
        self._parts = Parts(job.output, job.layout)
        self._warned: set[str] = set()

    def run(self, shards: Sequence[Shard], *, last: bool) -> list[Shard]:
        """The shards to be tried again; in the `last` round the tally has them as failed."""
        again: list[Shard] = []
        for shard, outcome in self._outcomes(shards):
            if isinstance(outcome, Unfit):
                raise RayError(outcome.reason)
            if isinstance(outcome, Failed):
                if last or outcome.hopeless:
                    self._tally.failed(shard, outcome.reason)
                else:
                    _warn(f"{shard} failed ({outcome.reason}); it is tried once more")
                    again.append(shard)
                continue
            self._take(shard, outcome)
        return again

    def _take(self, shard: Shard, written: Written) -> None:
        """A part was written."""
        _see(self._parts.path(shard.number))
        if written.plan is not None:
            self._tally.loaded(written.plan)
        for message in written.warned:
            if message not in self._warned:  # every actor has the same
                self._warned.add(message)
                _warn(message)
        self._tally.progress(shard, written.summary.sentences, written.read)
        self._tally.finished(shard, written.summary, written.worker, written.ended)

    def _outcomes(self, shards: Sequence[Shard]) -> Iterator[Any]:
        """What becomes of each shard, in any order."""
        if not shards:
            return
        data, slots = self._ray.data, self._slots
        rows = data.from_items(
            [packed(_absolute(shard)) for shard in shards], override_num_blocks=len(shards)
        )
        size = min(slots.count, len(shards))
        pool = data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=ahead(len(shards), size))
        done = rows.map(
            ShardActor,
            compute=pool,
            fn_constructor_args=(self._job, slots.device, slots.resource, __version__),
            **slots.request,
        )
        try:
            yield from map(unpacked, done.iter_rows())
        except self._ray.exceptions.RayError as error:
            raise RayError(
                f"the cluster cannot run workers ({_cause(error)}); see that this accel is installed on every"
                " node, by the same path"
            ) from error


def ahead(shards: int, actors: int) -> int:
    """How many shards an actor is given at once.

    One that it has already follows without a gap, where Ray Data, which looks ten times a second for what is
    done, takes two or three looks to hand one over; but at the end it waits there while faster actors have
    nothing to do, so that all of them must be no more than half of what each does.
    """
    return max(1, min(_AHEAD, shards // actors // 2))


def _cause(error: Exception) -> str:
    """The first line of what Ray says that names an error: it begins with the innermost one."""
    lines = str(error).strip().splitlines()
    return next((line.strip() for line in lines if _ERROR.match(line.strip())), lines[0] if lines else "")


def _absolute(shard: Shard) -> Shard:
    """The shard by a path that does not depend on where a process was started."""
    return shard if "://" in shard.path else replace(shard, path=os.path.abspath(shard.path))


def _see(part: Path) -> None:
    """OutputError if a part that was written is not to be seen from here."""
    until = time.monotonic() + _PATIENCE
    while not part.exists():
        if time.monotonic() > until:
            raise OutputError(
                f"{part} was written on another node, but is not here; name an output folder that all nodes"
                " of the cluster share"
            )
        time.sleep(0.1)


def _warn(message: str) -> None:
    warnings.warn(message, AccelWarning, stacklevel=3)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one that it starts in this machine for as long."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = {"include_dashboard": False, "object_store_memory": _STORE} if address == "local" else {}
    with _own_signals():
        ray = imported("ray", "ray", "--engine ray")
        imported("ray.data", "ray", "--engine ray")
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        try:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **local)
        except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
            raise _no_cluster(address, str(error).strip().partition("\n")[0]) from error
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # what comes back is small, and until Ray Data has found out how large its store is, it holds shards back
    context.op_resource_reservation_enabled = False
    context.downstream_capacity_backpressure_ratio = None
    try:
        yield ray
    finally:
        ray.shutdown()


def reach(address: str) -> None:
    """RayError if nothing listens at an address: Ray would try for minutes. UsageError if it is none."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UsageError(f"--address {address} is neither auto, nor local, nor host:port; say one of them")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_cluster(address, str(error)) from error


def _no_cluster(address: str, reason: str) -> RayError:
    return RayError(
        f"no Ray cluster at {address} ({reason}); start one with `ray start --head`, or say --address local"
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray sets a handler of its own for SIGTERM; ours say how a run ends."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
