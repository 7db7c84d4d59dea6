"""Unpacking .gz and .zst on the way; both may consist of several members or frames."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from accel_cli.errors import InputError
from accel_cli.text.extras import imported


@contextmanager
def unpacked(stream: BinaryIO, packing: str | None, place: str) -> Iterator[BinaryIO]:
    """The stream without its packing, ".gz", ".zst" or None; InputError where it is damaged or cut."""
    if packing is None:
        yield stream
    elif packing == ".gz":
        try:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=stream))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{place} is not a whole gzip file ({error}); fetch or pack it again") from error
    else:
        module = zstd(place)
        try:
            yield module.ZstdFile(stream)
        except (EOFError, module.ZstdError) as error:
            raise InputError(
                f"{place} is not a whole zstd file with windows of at most 128 MiB ({error}); fetch it again,"
                " or pack it without --long or --ultra"
            ) from error


def zstd(place: str) -> Any:
    """The standard library's module, before Python 3.14 a package with the same; AccelError without it."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return imported(name, "zstd", place)
