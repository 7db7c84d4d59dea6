"""One Parquet file of many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accel_cli.errors import InputError
from accel_cli.text.files import LocalFile
from accel_cli.text.parquet import opened
from accel_cli.text.parquet_writer import ParquetWriter


def merged(parts: Sequence[str]) -> Iterator[bytes]:
    """The bytes of a file of all row groups of some files, one after the other.

    A row group of a part is in memory at a time. Raises InputError if a part is damaged, or if its
    columns are not those of the first one.
    """
    writer = None
    for path in parts:
        with opened(LocalFile(path)) as part:
            schema = part.schema_arrow
            if writer is None:
                first, writer = schema, ParquetWriter(schema)
            if not schema.equals(first):
                raise InputError(f"{path} has other columns than {parts[0]}; merge them by hand")
            for group in range(part.num_row_groups):
                writer.write(part.read_row_group(group))
                yield writer.drain()
    if writer is not None:
        writer.close()
        yield writer.drain()
