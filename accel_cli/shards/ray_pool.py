"""A pool of Ray actors: each is given shards as it does them, and replaced when it dies."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from accel_cli.shards.ray_actor import Outcome
from accel_cli.shards.ray_address import RayError
from accel_cli.shards.shard import Shard

_ERROR = re.compile(r"[A-Za-z_.]*(Error|Exception): ")
_AHEAD = 3  # shards of an actor at most: one is at work, one is synced, and one follows without a gap
_LOOK = 5.0  # seconds without news until the cluster is asked whether it can have actors
_LOOKS = 6  # so often it may say no; after a minute without a head Ray ends the process itself
_STARTS = 3  # actors for each place that may die one after the other before any of them is ready


@dataclass(eq=False)
class _Place:
    """A place of the pool, the actor in it, and the shards that this has."""

    actor: Any
    ready: bool = False
    held: int = 0


class Pool:
    """`size` actors that `begin` makes. What one that dies had goes to `lost`, and is given out again last.

    An actor has the methods `ready` and `run`, which end without an exception unless it cannot work at all.
    `able` says whether the cluster can have one at all.
    """

    def __init__(
        self,
        ray: Any,
        begin: Callable[[], Any],
        size: int,
        lost: Callable[[Shard], None],
        able: Callable[[], bool],
    ) -> None:
        self._ray, self._begin, self._lost, self._able = ray, begin, lost, able
        gone = ray.exceptions
        self._gone = (gone.RayActorError, gone.NodeDiedError, gone.WorkerCrashedError, gone.OutOfMemoryError)
        self._asked: dict[Future[Any], tuple[_Place, Shard | None]] = {}  # no shard: to be ready
        self._told: SimpleQueue[Future[Any]] = SimpleQueue()  # ray.wait spoils our SystemExit
        self._deaths = 0  # in a row, of actors that were not ready yet
        self._places: list[_Place] = []
        for _ in range(size):
            self._fill()

    def outcomes(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, Outcome]]:
        """What becomes of each shard, in any order. Raises RayError if actors cannot work."""
        waiting = deque(shards)
        self._give(waiting)
        while waiting or any(shard is not None for _, shard in self._asked.values()):
            told = self._next()
            place, shard = self._asked.pop(told)
            try:
                outcome = told.result()
            except self._gone as error:
                self._lose(place, error)
                if shard is not None:
                    self._lost(shard)
                    waiting.append(shard)
            except self._ray.exceptions.RayError as error:
                raise _cannot(error) from error
            else:
                if shard is None:
                    place.ready, self._deaths = True, 0
                else:
                    place.held -= 1
                    yield shard, outcome
            self._give(waiting)

    def _next(self) -> Future[Any]:
        """What is told next. Raises RayError if nothing is, since the cluster can have no actors."""
        while True:
            try:
                return self._told.get(timeout=_LOOK)
            except Empty:
                self._find_room()

    def _find_room(self) -> None:
        """Wait until the cluster can have actors. Raises RayError if that takes long."""
        for _ in range(_LOOKS):
            if self._able():
                return
            time.sleep(_LOOK)
        raise RayError(
            f"for {_LOOKS * _LOOK:.0f} seconds the Ray cluster has had no node on which a worker can run; see"
            " that its head and a node are up, then go on with --resume"
        )

    def close(self) -> None:
        """End all actors."""
        for place in self._places:
            self._ray.kill(place.actor)
        self._places = []

    def _fill(self) -> None:
        place = _Place(self._begin())
        self._places.append(place)
        self._ask(place.actor.ready.remote(), place)

    def _ask(self, call: Any, place: _Place, shard: Shard | None = None) -> None:
        future: Future[Any] = call.future()
        self._asked[future] = place, shard
        future.add_done_callback(self._told.put)

    def _lose(self, place: _Place, error: Any) -> None:
        """Another actor in a place, once, of all the calls that fail there."""
        if place not in self._places:
            return
        if getattr(error, "actor_init_failed", False):
            raise _cannot(error) from error
        if not place.ready:
            self._deaths += 1
            if self._deaths >= _STARTS * len(self._places):
                raise _cannot(error) from error
        self._places.remove(place)
        self._find_room()  # without a head Ray would wait for it, and leave no room for signals
        self._ray.kill(place.actor)  # it may only be out of reach, and should not write on
        self._fill()

    def _give(self, waiting: deque[Shard]) -> None:
        """Shards to whoever has the fewest; ahead of time only while there are some for everyone."""
        while waiting:
            ready = [place for place in self._places if place.ready]
            place = min(ready, key=lambda one: one.held, default=None)
            most = _AHEAD if len(waiting) > len(self._places) else 1
            if place is None or place.held >= most:
                return
            place.held += 1
            shard = waiting.popleft()
            self._ask(place.actor.run.remote(shard), place, shard)


def _cannot(error: Exception) -> RayError:
    return RayError(
        f"the cluster cannot run workers ({cause(error)}); see that this accel is installed on every node, by"
        " the same path"
    )


def cause(error: Exception) -> str:
    """The line of what Ray says that names an error: the innermost one comes first."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    named = (line for line in lines if _ERROR.match(line))
    return next(named, lines[0] if lines else "")
