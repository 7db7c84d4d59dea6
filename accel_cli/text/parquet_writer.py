"""Writing a Parquet file piece by piece: tables go in, and bytes come out as soon as they are final."""

from __future__ import annotations

import io
from typing import Any

from accel_cli.text.parquet import pyarrow


class ParquetWriter:
    """Row groups of one schema, a pyarrow one; checksums are written for every page."""

    def __init__(self, schema: Any) -> None:
        self._sink = _Sink()
        parquet = pyarrow("Parquet as output").parquet
        self._writer = parquet.ParquetWriter(self._sink, schema, write_page_checksum=True)

    def write(self, table: Any) -> None:
        """A table as a row group of its own, whatever its size."""
        self._writer.write_table(table.unify_dictionaries(), row_group_size=max(1, len(table)))

    def close(self) -> None:
        """The directory of all row groups."""
        self._writer.close()

    def drain(self) -> bytes:
        """What has been written since it was last asked for."""
        return self._sink.drain()


class _Sink(io.RawIOBase):
    """A file that keeps what nobody has taken yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def drain(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
