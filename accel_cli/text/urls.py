"""URLs of inputs: which file system of fsspec holds one, how it is shown, and what can go wrong there.

Credentials are those of the environment, as the libraries behind fsspec look for them (extras `remote`
and `gs`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from accel_cli.errors import AccelError, InputError, UsageError
from accel_cli.text.extras import imported

SCHEMES = ("s3", "gs", "http", "https")
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
