"""How the tests of the readers read."""

from __future__ import annotations

import gzip
from pathlib import Path

from accel_cli.text.chunks import TextChunk
from accel_cli.text.readers import Source

DIMENSIONS = (12, None)


def chunks(
    path: Path, column: str | None = None, kind: str | None = None, rows: int = 100
) -> list[TextChunk]:
    return chunks_of(Source(str(path), kind, column), rows)


def chunks_of(source: Source, rows: int) -> list[TextChunk]:
    found = list(source.chunks(rows, DIMENSIONS))
    assert all(isinstance(chunk, TextChunk) for chunk in found)
    return found  # type: ignore[return-value]


def texts(path: Path, column: str | None = None, kind: str | None = None, rows: int = 100) -> list[bytes]:
    return [text for chunk in chunks(path, column, kind, rows) for text in chunk.texts]


def texts_of(source: Source, rows: int = 300) -> list[bytes]:
    return [text for chunk in chunks_of(source, rows) for text in chunk.texts]


def failures(path: Path, column: str | None = None) -> list[str]:
    return [reason for chunk in chunks(path, column) for reason in chunk.failed.values()]


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path
