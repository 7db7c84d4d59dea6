"""What a run has come to so far, as whoever runs its shards tells it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from accel_cli.errors import AccelError, AccelWarning, InputError, RecordError
from accel_cli.pipeline import Summary
from accel_cli.shards.shard import Shard


class ShardsFailed(AccelError):
    """Shards failed twice, in two workers."""


class InputsFailed(ShardsFailed, InputError):
    """Among shards that failed are some whose input is at fault."""


class RecordsFailed(InputsFailed, RecordError):
    """Among them are some that have broken records."""


@dataclass(frozen=True)
class Failure:
    """A shard that failed for good, why at last, and what kind of an error that was."""

    shard: Shard
    reason: str
    error: type[AccelError] = AccelError

    def __str__(self) -> str:
        return f"{self.shard} ({self.shard.within(self.reason)})"


class Tally:
    """Summaries of the parts that were written, by number, and failures.

    `tell` is given the plan of the first worker; `show`, again and again, the sentences written and
    the bytes read so far.
    """

    def __init__(
        self,
        tell: Callable[[str], None] = lambda plan: None,
        show: Callable[[int, int], None] = lambda sentences, read: None,
    ) -> None:
        self.written: dict[int, Summary] = {}
        self.failures: list[Failure] = []
        self._retried: set[int] = set()
        self._tell: Callable[[str], None] | None = tell
        self._show = show
        self._under_way: dict[int, tuple[int, int]] = {}
        self._sentences = 0
        self._read = 0

    def loaded(self, plan: str) -> None:
        """A worker is ready; all workers run alike, but for their devices."""
        if self._tell is not None:
            self._tell(plan)
        self._tell = None

    def progress(self, shard: Shard, sentences: int, read: int) -> None:
        """How far a shard is: sentences written and bytes read of it."""
        before = self._under_way.get(shard.number, (0, 0))
        self._under_way[shard.number] = sentences, read
        self._sentences += sentences - before[0]
        self._read += read - before[1]
        self._show(self._sentences, self._read)

    def finished(
        self, shard: Shard, summary: Summary, worker: int | str = 0, ended: float | None = None
    ) -> None:
        """A worker's part is there: since `ended` by time.perf_counter, or since now."""
        self.written[shard.number] = summary

    def retried(self, shard: Shard, reason: str) -> None:
        """A shard failed and is tried once more, of which an AccelWarning tells the first time."""
        self.progress(shard, 0, 0)
        if shard.number not in self._retried:
            self._retried.add(shard.number)
            told = f"{shard} failed ({shard.within(reason)}); it is tried once more"
            warnings.warn(told, AccelWarning, stacklevel=2)

    def failed(self, shard: Shard, reason: str, error: type[AccelError] = AccelError) -> None:
        """A shard failed for good, by an error of some kind."""
        self.progress(shard, 0, 0)
        self.failures.append(Failure(shard, reason, error))

    def check(self) -> None:
        """ShardsFailed, naming them, if there are any: what can be done depends on its kind."""
        if self.failures:
            self.failures.sort(key=lambda failure: failure.shard.number)
            named = "; ".join(_some(self.failures))
            for kind, fault in ((RecordsFailed, RecordError), (InputsFailed, InputError)):
                if any(issubclass(failure.error, fault) for failure in self.failures):
                    raise kind(f"failed: {named}")
            raise ShardsFailed(f"failed twice: {named}; mend the cause, then go on with --resume")


def _some(failures: list[Failure], most: int = 5) -> Iterator[str]:
    yield from map(str, failures[:most])
    if len(failures) > most:
        yield f"and {len(failures) - most} more"
