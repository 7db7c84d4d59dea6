"""Inputs that lie elsewhere: s3://, gs:// and http(s):// through fsspec (extras `remote` and `gs`).

A range of a file is read in blocks, several at once, in memory that has a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from threading import Event
from typing import Any, BinaryIO, cast

from accel_cli.errors import InputError
from accel_cli.text.fetched import Joined, Seekable
from accel_cli.text.files import Reader
from accel_cli.text.urls import file_system, named_errors, shown

BLOCK = 8 << 20  # bytes of a request
AHEAD = 4  # requests under way
_PAUSES = (0.2, 1.0, 4.0)  # seconds, after each of which a request is made again


class RemoteFile:
    """An object of a store, or what an HTTP server gives."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.place = shown(url)

    def check(self) -> None:
        """Ask for it, so that a wrong name is refused before anything is loaded."""
        self.fingerprint()

    @property
    def size(self) -> int | None:
        """Its bytes, or None if the server does not say."""
        return cast("int | None", self._info["size"])

    @cached_property
    def ranged(self) -> bool:
        """Whether any range can be read: of every object, but not from every HTTP server."""
        if self.size is None:
            return False
        if self.size == 0 or not self.url.startswith("http"):
            return True
        with self._handle() as file, named_errors(self.place):
            try:
                return bool(_patiently(file, self.size - 1, self.size, Event()))
            except ValueError:  # it began to send all of it
                return False

    def fingerprint(self) -> dict[str, int | str]:
        """Size and ETag, as they were when first asked for; else the time of the last change."""
        return _fingerprint(self._info)

    @contextmanager
    def ranges(self) -> Iterator[Reader]:
        """A request for each range."""
        with self._handle() as file:
            yield lambda start, stop: self._read(file, start, stop, Event())

    @contextmanager
    def stream(self, start: int, stop: int | None, count: Callable[[int], None]) -> Iterator[BinaryIO]:
        """The bytes from `start` up to `stop`, or to the end."""
        blocks = self._ahead(start, self.size if stop is None else stop) if self.ranged else self._whole()
        try:
            yield cast("BinaryIO", Joined(blocks, count))
        finally:
            blocks.close()

    @contextmanager
    def seekable(self) -> Iterator[BinaryIO]:
        """A file of which each read is a request."""
        if not self.ranged:
            raise InputError(
                f"{self.place}: its server reads no ranges, which Parquet needs; copy the file here"
            )
        with self.ranges() as read:
            yield cast("BinaryIO", Seekable(read, self.size or 0))
        self._check_unchanged()

    @cached_property
    def _system(self) -> Any:
        return file_system(self.url)

    @cached_property
    def _info(self) -> dict[str, Any]:
        return self._ask()

    def _ask(self) -> dict[str, Any]:
        with named_errors(self.place):
            info: dict[str, Any] = self._system.info(self.url)
            if info["type"] != "file":
                raise InputError(f"{self.place} is a folder; end its name with / to read what is below it")
            return info

    @contextmanager
    def _handle(self) -> Iterator[Any]:
        """What reads one range after another."""
        known = {"size": self.size} if self.url.startswith("http") else {}
        with named_errors(self.place):
            file = self._system.open(self.url, "rb", block_size=BLOCK, cache_type="none", **known)
        with file:
            yield file

    def _ahead(self, start: int, stop: int | None) -> Generator[bytes]:
        """Blocks in order, AHEAD of them on their way at once, each by a handle of its own."""
        starts = range(start, stop or 0, BLOCK)
        with ExitStack() as stack:
            handles = [stack.enter_context(self._handle()) for _ in starts[:AHEAD]]
            pool = stack.enter_context(ThreadPoolExecutor(AHEAD))
            stack.callback(pool.shutdown, cancel_futures=True)
            closing = Event()
            stack.callback(closing.set)
            waiting: deque[Future[bytes]] = deque()
            for number, begin in enumerate(starts):
                if number >= AHEAD:
                    yield waiting.popleft().result()
                end = min(begin + BLOCK, stop or 0)
                waiting.append(pool.submit(self._read, handles[number % AHEAD], begin, end, closing))
            while waiting:
                yield waiting.popleft().result()
        self._check_unchanged()

    def _read(self, file: Any, start: int, stop: int, closing: Event) -> bytes:
        with named_errors(self.place):
            return _patiently(file, start, stop, closing)

    def _whole(self) -> Generator[bytes]:
        """All of it over one connection, from a server that cannot do ranges."""
        with named_errors(self.place), self._system.open(self.url, "rb", block_size=0) as file:
            while block := file.read(1 << 20):
                yield block
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """InputError if the object is not what it was when it was first asked for."""
        now = _fingerprint(self._ask())
        if now != self.fingerprint():
            raise InputError(
                f"{self.place} changed while it was read ({self.fingerprint()}, then {now}); run again"
            )


def _patiently(file: Any, start: int, stop: int, closing: Event) -> bytes:
    """A range; asked for again after a pause where that fails, unless nobody wants it any more."""
    for pause in _PAUSES:
        try:
            return _exactly(file, start, stop)
        except ValueError:  # a server that reads no ranges will not learn it
            raise
        except Exception:
            if closing.wait(pause):
                raise
    return _exactly(file, start, stop)


def _exactly(file: Any, start: int, stop: int) -> bytes:
    file.seek(start)
    data: bytes = file.read(stop - start)
    if len(data) != stop - start:
        raise EOFError(f"{len(data)} of {stop - start} bytes came")
    return data


def _fingerprint(info: dict[str, Any]) -> dict[str, int | str]:
    changes = ("ETag", "etag", "Last-Modified", "LastModified", "updated")
    found = next((str(info[key]) for key in changes if info.get(key)), "unknown")
    return {"size": -1 if info["size"] is None else int(info["size"]), "etag": found}
