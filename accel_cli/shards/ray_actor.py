"""What runs in a slot of a Ray cluster: shards come in one by one, and what became of each goes out."""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from accel_cli import __version__
from accel_cli.engines.planner import cores
from accel_cli.errors import AccelError, AccelWarning, DeviceError, InputError, OutputError
from accel_cli.pipeline import Summary
from accel_cli.shards.job import Job
from accel_cli.shards.part import HIDDEN, Parts
from accel_cli.shards.shard import Shard
from accel_cli.shards.tries import Tries
from accel_cli.shards.worker import Draft, ShardWorker

DIED = "its worker died"  # the reason, where no more is known


@dataclass(frozen=True)
class Written:
    """The shard has its part, made from so many bytes; of none if it was there already.

    `plan` is told with an actor's first part; `worker` is the actor, and `ended` is when, by
    time.perf_counter of its machine.
    """

    summary: Summary
    read: int = 0
    plan: str | None = None
    warned: tuple[str, ...] = ()
    worker: str = ""
    ended: float | None = None


@dataclass(frozen=True)
class Failed:
    """The shard has no part, by an error of some kind. `hopeless` says that no other worker should try."""

    reason: str
    hopeless: bool = False
    error: type[AccelError] = AccelError


@dataclass(frozen=True)
class Unfit:
    """No shard can be done here, whichever it is; the reason names the node."""

    reason: str


Outcome = Written | Failed | Unfit


@dataclass(frozen=True)
class _Classified:
    """All rows of a part, which is still to be synced, and what `Written` says of it."""

    draft: Draft
    read: int
    plan: str | None
    warned: tuple[str, ...]
    ended: float


class ShardActor:
    """A ShardWorker that Ray starts. An exception would end the whole run, so none leaves it.

    `resource` is what Ray counts slots by (GPU, CPU, accel), `version` that of the driver's accel.
    """

    def __init__(self, job: Job, device: str, resource: str, version: str) -> None:
        self._job, self._device, self._resource = job, device, resource
        self._version = version
        self._worker: ShardWorker | None = None
        self._spoiled = self._told = False
        self._warned: list[str] = []  # and not told yet
        self._turn = threading.Lock()  # of whoever classifies

    def ready(self) -> None:
        """Load the model, so that whoever dies of that is not given shards for ever. What fails, they say."""
        with suppress(Exception), self._heeding():
            self._worker = self._started()

    def run(self, shard: Shard) -> Outcome:
        """Do a shard. From another thread the next one may be classified while the part is synced."""
        try:
            return self._done(shard)
        except OutputError as error:  # which is no fault of the shard
            return _unfit(error)
        except Exception as error:
            return Failed(_said(error))

    def _done(self, shard: Shard) -> Outcome:
        """What becomes of a shard. Raises OutputError if its part cannot be written."""
        parts = Parts(self._job.output, self._job.layout, self._job.config.model.labels)
        done = parts.summary(shard.number)
        if done is not None:  # and a node was lost with the answer
            return Written(done, worker=_name())
        with self._turn:
            if self._spoiled:
                os._exit(1)  # the pool starts another process in this slot, and gives the shard out again
            classified = self._classified(shard)
        if not isinstance(classified, _Classified):
            return classified
        summary = classified.draft.finish()
        return Written(
            summary, classified.read, classified.plan, classified.warned, _name(), classified.ended
        )

    def _classified(self, shard: Shard) -> _Classified | Failed | Unfit:
        read, tries = deque([0], maxlen=1), Tries(self._job.output, shard.number)
        with self._heeding():
            try:
                self._worker = self._worker or self._started()
            except Exception as error:
                return _unfit(error)
            if not tries.begin():
                return Failed(DIED, hopeless=True)
            try:
                draft = self._worker.write(shard, lambda sentences, done: read.append(done))
                ended = time.perf_counter()
            except OutputError:
                raise
            except InputError as error:  # which is the same for everyone
                return Failed(_said(error), hopeless=True, error=type(error))
            except Exception as error:
                self._spoiled = True  # a device that has failed once fails in this process for ever
                return Failed(_said(error), tries.spent)
        with suppress(OSError):
            tries.forget()  # a part being synced has no share in it if the next shard kills its process
        warned, self._warned = tuple(self._warned), []
        plan, self._told = None if self._told else self._worker.plan, True
        return _Classified(draft, read[-1], plan, warned, ended)

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        """Keep the warnings of accel, for the next part to tell."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", AccelWarning)
            yield
        self._warned += [str(one.message) for one in warned if issubclass(one.category, AccelWarning)]

    def _started(self) -> ShardWorker:
        """Load the model. Raises AccelError."""
        if self._version != __version__:
            raise DeviceError(
                f"accel {__version__} is installed, not the {self._version} of where the run started"
            )
        if not (self._job.output / HIDDEN).is_dir():
            raise OutputError(
                f"{self._job.output} is not there; name an output folder that all nodes of the cluster share"
            )
        return ShardWorker(self._shared(), self._device)

    def _shared(self) -> Job:
        """The job with this slot's share of the node's cores, unless the number of threads was said."""
        config = self._job.config
        if self._device != "cpu" or config.plan.streams:
            return self._job
        share = max(1, cores() // _slots_here(self._resource))
        return replace(self._job, config=replace(config, plan=config.plan.overridden(streams=share)))


def _name() -> str:
    """This actor, apart from all others and from its successor."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _unfit(error: Exception) -> Unfit:
    return Unfit(f"on {socket.gethostname()}: {_said(error)}")


def _said(error: Exception) -> str:
    """An error in words."""
    return str(error) if isinstance(error, AccelError) else f"{type(error).__name__}: {error}"


def _slots_here(resource: str) -> int:
    """The slots of this node."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    nodes: Any = ray.nodes  # it has no types
    found = [node["Resources"].get(resource, 1) for node in nodes() if node["NodeID"] == here]
    return max(1, int(found[0])) if found else 1
