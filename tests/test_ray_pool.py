"""Which actor is given which shard, and what becomes of the shards of one that dies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest

from accel_cli.shards import ray_pool
from accel_cli.shards.ray_address import RayError
from accel_cli.shards.ray_pool import Pool
from accel_cli.shards.shard import Shard


class Died(Exception):
    """As Ray says that an actor is gone."""

    actor_init_failed = False


class Other(Exception):
    """Another error of Ray."""


class Call:
    """Of an actor, to do a shard or to be ready."""

    def __init__(self, ray: Ray, actor: Actor, shard: Shard | None) -> None:
        self.actor, self.shard = actor, shard
        self.answer: Future[Any] = Future()
        ray.calls.append(self)

    def future(self) -> Future[Any]:
        return self.answer


class Actor:
    def __init__(self, ray: Ray, number: int) -> None:
        self.number, self.dead = number, False
        self.ready = SimpleNamespace(remote=lambda: Call(ray, self, None))
        self.run = SimpleNamespace(remote=lambda shard: Call(ray, self, shard))


class Ray:
    """Enough of Ray, and a queue: who looks into it has an actor answer its oldest call, in turns."""

    exceptions = SimpleNamespace(
        RayActorError=Died, NodeDiedError=Died, WorkerCrashedError=Died, OutOfMemoryError=Died, RayError=Other
    )

    def __init__(self, answer: Callable[[int, Shard | None], Any] = lambda actor, shard: None) -> None:
        self.actors: list[Actor] = []
        self.calls: list[Call] = []
        self.most: Counter[int] = Counter()
        self.silent: set[int] = set()
        self.lost: list[Shard] = []
        self.able, self.waits = True, 0
        self._answer, self._turn = answer, 0
        self._told: list[Future[Any]] = []
        self.put = self._told.append

    def begin(self) -> Actor:
        self.actors.append(Actor(self, len(self.actors)))
        return self.actors[-1]

    def get(self, timeout: float) -> Future[Any]:
        if self.waits:
            self.waits -= 1
            raise Empty
        self.most |= Counter(call.actor.number for call in self.calls if call.shard is not None)
        asked = sorted({call.actor.number for call in self.calls} - self.silent)
        self._turn += 1
        chosen = asked[self._turn % len(asked)]
        call = next(call for call in self.calls if call.actor.number == chosen)
        self.calls.remove(call)
        try:
            if call.actor.dead:
                raise Died
            call.answer.set_result(self._answer(chosen, call.shard))
        except (Died, Other) as error:
            call.actor.dead = True
            call.answer.set_exception(error)
        return self._told.pop()

    def kill(self, actor: Actor) -> None:
        actor.dead = True


SHARDS = [Shard(number, "in.txt") for number in range(20)]


Made = Callable[[Ray, int], Pool]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """A pool of that Ray, whose calls are answered while it waits for one."""

    def make(ray: Ray, size: int) -> Pool:
        monkeypatch.setattr(ray_pool, "SimpleQueue", lambda: ray)
        return Pool(ray, ray.begin, size, ray.lost.append, lambda: ray.able)

    return make


def numbers(pool: Pool, shards: list[Shard] = SHARDS) -> list[int]:
    """Of the shards that it did."""
    return sorted(shard.number for shard, _ in pool.outcomes(shards))


def test_each_shard_once_and_the_next_one_is_there_already(made: Made) -> None:
    ray = Ray()
    pool = made(ray, 3)
    assert numbers(pool) == list(range(20))
    assert ray.most == {0: 3, 1: 3, 2: 3}
    pool.close()
    assert [actor.dead for actor in ray.actors] == [True] * 3


def test_nothing_is_held_back_from_the_others_at_the_end(made: Made) -> None:
    ray = Ray()
    assert len(numbers(made(ray, 4), SHARDS[:4])) == 4
    assert max(ray.most.values()) == 1


def test_a_pool_goes_on_with_more_shards(made: Made) -> None:
    ray = Ray()
    pool = made(ray, 2)
    for some in (SHARDS[:7], SHARDS[7:8], []):
        assert numbers(pool, some) == [one.number for one in some]
    assert len(ray.actors) == 2


def test_what_a_dead_actor_had_goes_to_the_others(made: Made) -> None:
    def answer(actor: int, shard: Shard | None) -> None:
        if actor == 0 and shard is not None:
            raise Died

    ray = Ray(answer)
    assert numbers(made(ray, 2)) == list(range(20))
    assert len(ray.actors) == 3, "it is replaced once, though it had two shards"
    assert len(ray.lost) == len(set(ray.lost)) == ray.most[0]


def test_a_place_that_nobody_comes_to_holds_nothing_up(made: Made) -> None:
    ray = Ray()
    ray.silent = {0}
    assert numbers(made(ray, 2)) == list(range(20))


def test_actors_that_die_while_they_start_are_not_begun_for_ever(made: Made) -> None:
    def answer(actor: int, shard: Shard | None) -> None:
        raise Died("no memory")

    ray = Ray(answer)
    with pytest.raises(RayError, match=r"cannot run workers \(no memory\); see that this accel is installed"):
        numbers(made(ray, 2))
    assert len(ray.actors) < 10


@pytest.mark.parametrize("error", [Other("ValueError: x"), Died("ValueError: x")])
def test_an_actor_that_cannot_begin_ends_the_run(made: Made, error: Exception) -> None:
    def answer(actor: int, shard: Shard | None) -> None:
        raise error

    if isinstance(error, Died):
        error.actor_init_failed = True
    ray = Ray(answer)
    with pytest.raises(RayError, match=r"cannot run workers \(ValueError: x\)"):
        numbers(made(ray, 2))
    assert len(ray.actors) == 2


def test_an_outcome_comes_with_its_shard(made: Made) -> None:
    pool = made(Ray(lambda actor, shard: shard and shard.number * 10), 2)
    assert all(outcome == shard.number * 10 for shard, outcome in pool.outcomes(SHARDS))


def test_a_shard_may_take_its_time(made: Made) -> None:
    ray = Ray()
    ray.waits = 2000
    assert numbers(made(ray, 2)) == list(range(20))


@pytest.mark.parametrize("told", [True, False])
def test_a_cluster_that_has_nowhere_left_for_workers(
    made: Made, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """Whether the loss of an actor is told, or nothing is."""
    ray, slept = Ray(), list[float]()
    monkeypatch.setattr(time, "sleep", slept.append)
    outcomes = made(ray, 2).outcomes(SHARDS)
    next(outcomes)
    ray.able, begun = False, len(ray.actors)
    if told:
        ray.actors[0].dead = True
    else:
        ray.waits = 1
    with pytest.raises(RayError, match=r"for 30 seconds the Ray cluster has had no node .* with --resume"):
        list(outcomes)
    assert sum(slept) == 30
    assert len(ray.actors) == begun, "none is asked of a head that may be gone"
