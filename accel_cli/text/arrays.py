"""Arrays as input: numpy's .npy files and the school's raw .bin files, read in slices and never whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accel_cli.errors import InputError, UsageError
from accel_cli.text.chunks import ArrayChunk


def array_chunks(
    path: Path, kind: str | None, rows: int, dimensions: tuple[int, int | None]
) -> Iterator[ArrayChunk]:
    """The sentences of an array file, at most `rows` a chunk; see `Source.chunks` for `dimensions`."""
    values = _npy(path) if _is_npy(path) else _raw(path, kind, *dimensions)
    embeddings = holds_embeddings(path, kind)
    for start in range(0, len(values), rows):
        yield ArrayChunk(np.asarray(values[start : start + rows]), start + 1, embeddings)


def holds_embeddings(path: Path, kind: str | None) -> bool:
    """Whether an array file holds embeddings rather than token ids."""
    if kind is None and _is_npy(path):
        return _npy(path).dtype.kind == "f"
    return kind == "embeddings"


def _is_npy(path: Path) -> bool:
    return path.suffix.lower() == ".npy"


def _npy(path: Path) -> npt.NDArray[Any]:
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy parses the header with Python's own parser, which may raise anything
        raise InputError(f"{path} is not a whole .npy file of plain numbers ({error})") from error
    if not isinstance(values, np.ndarray) or values.ndim == 0:
        raise InputError(f"{path} holds no array of sentences")
    return values


def _raw(path: Path, kind: str | None, dimension: int, length: int | None) -> npt.NDArray[Any]:
    """The school's files: int32 ids [n, length], or float32 embeddings [n, dimension, length]."""
    if kind not in ("ids", "embeddings"):
        raise UsageError(
            f"{path} is raw: say what it holds with --input-format ids or --input-format embeddings"
        )
    if length is None:
        raise InputError(
            f"{path} is raw and the model takes sentences of any length; use a .npy file instead"
        )
    shape = (length,) if kind == "ids" else (dimension, length)
    record = 4 * int(np.prod(shape))
    size = path.stat().st_size
    if size % record:
        raise InputError(f"{path}: {size} bytes are no whole number of sentences of {record} bytes each")
    if size == 0:
        return np.zeros((0, *shape), dtype=np.float32)
    return np.memmap(path, "<i4" if kind == "ids" else "<f4", "r").reshape(-1, *shape)
