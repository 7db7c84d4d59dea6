"""Inputs that lie elsewhere: s3://, gs:// and http(s):// through fsspec (extras `remote` and `gs`).

Credentials are those of the environment, as the libraries behind fsspec look for them. A range of a
file is read in blocks, several at once, in memory that has a bound.
"""

from __future__ import annotations

import errno
import io
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from threading import Event
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from accel_cli.errors import AccelError, InputError, UsageError
from accel_cli.text.extras import imported
from accel_cli.text.files import Reader

SCHEMES = ("s3", "gs", "http", "https")
BLOCK = 8 << 20  # bytes of a request
AHEAD = 4  # requests under way
_PAUSES = (0.2, 1.0, 4.0)  # seconds, after each of which a request is made again
_CONNECT, _READ = 30, 60  # seconds without an answer


def is_url(path: str) -> bool:
    """Whether a path names something elsewhere."""
    return path.partition("://")[0] in SCHEMES and "://" in path


def file_system(url: str) -> Any:
    """The fsspec file system that holds `url`; AccelError where its extra is missing."""
    scheme = url.partition("://")[0]
    fsspec = imported("fsspec", "remote", url)
    if scheme == "s3":
        imported("s3fs", "remote", url)
        timeouts = {"connect_timeout": _CONNECT, "read_timeout": _READ}
        return fsspec.filesystem("s3", config_kwargs=timeouts, use_listings_cache=False)
    if scheme == "gs":
        imported("gcsfs", "gs", url)
        return fsspec.filesystem("gs", use_listings_cache=False)
    aiohttp = imported("aiohttp", "remote", url)
    patience = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_READ)
    plain = {"Accept-Encoding": "identity"}  # packed on the way, ranges would be those of packed bytes
    return fsspec.filesystem("http", client_kwargs={"timeout": patience, "trust_env": True}, headers=plain)


def shown(url: str) -> str:
    """A URL for messages: without user, password and query, which may be secrets."""
    if not url.startswith("http"):
        return url
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"{url.partition('?')[0]} is no URL ({error}); check it") from error
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@contextmanager
def named_errors(place: str) -> Iterator[None]:
    """Whatever fsspec and the libraries behind it raise, as InputError."""
    try:
        yield
    except AccelError:
        raise
    except Exception as error:  # of four libraries, with no family in common
        raise InputError(f"cannot read {place}: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """What went wrong, and what to do about it."""
    cause = error.__cause__
    answered = isinstance(cause, OSError) or _too_slow(cause) or hasattr(cause, "status")
    if cause is not None and answered and isinstance(error, FileNotFoundError):
        return _reason(cause)  # fsspec says of every HTTP error that nothing was found
    status = getattr(error, "status", None)
    if isinstance(error, PermissionError) or status in (401, 403) or "Credentials" in type(error).__name__:
        return "access is denied; check the credentials in the environment, and what they allow"
    if isinstance(error, FileNotFoundError) or status == 404:
        return "there is nothing of that name; check it"
    if status is not None:
        return f"the server answered {status}; check the name, or run again later"
    if _too_slow(error):
        return "no answer in time; check the network and run again"
    if getattr(error, "errno", None) == errno.EBUSY:
        return "it changed while it was read; run again"
    text = str(error).strip().partition("\n")[0]
    hidden = not text or "://" in text  # a URL may hold secrets
    return f"{type(error).__name__ if hidden else text}; check the network and run again"


def _too_slow(error: BaseException | None) -> bool:
    """Whether it is a time-out, of which each library has its own."""
    return isinstance(error, TimeoutError) or "Timeout" in type(error).__name__


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


class Joined(io.RawIOBase):
    """Blocks as one stream, which counts what is read."""

    def __init__(self, blocks: Iterator[bytes], count: Callable[[int], None]) -> None:
        self._blocks = blocks
        self._count = count
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def read1(self, size: int = -1) -> bytes:
        """At most `size` bytes of one block; nothing only at the end."""
        self._fill()
        return bytes(self._take(len(self._rest) if size < 0 else size))

    def readinto(self, buffer: Any) -> int:
        """Fill the front of `buffer`."""
        self._fill()
        taken = self._take(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)

    def _fill(self) -> None:
        if not self._rest:
            self._rest = memoryview(next(self._blocks, b""))

    def _take(self, size: int) -> memoryview:
        taken, self._rest = self._rest[:size], self._rest[size:]
        self._count(len(taken))
        return taken


class Seekable(io.RawIOBase):
    """Ranges of `size` bytes as a file that can be read here and there."""

    def __init__(self, read: Reader, size: int) -> None:
        self._read = read
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, counted as `whence` says."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill the front of `buffer`, all of it before the end of the file."""
        stop = min(self._place + len(buffer), self._size)
        data = self._read(self._place, stop) if stop > self._place else b""
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


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
