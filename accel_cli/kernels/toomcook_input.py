"""Host twin of kernels_cu/toomcook_input.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape

THREADS = 128
CHANNEL_ROWS, TABLE_ROWS = range(2)

KERNEL = Kernel(
    "toomcook_input",
    (
        Array("x", "float32"),
        Array("ids", "int32"),
        Array("starts", "int32"),
        Array("owners", "int32"),
        Array("offsets", "int32"),
        Array("matrix", "float32"),
        Array("v", "float32", written=True),
        Scalar("chunks", "int32"),
        Scalar("dimension", "int32"),
        Scalar("length", "int32"),
    ),
)


@dataclass(frozen=True)
class Chunks:
    """Pieces of sentences: int32 arrays as kernels_cu/windows.cu makes them for the widest width.

    A chunk begins at token `starts` [chunks] and belongs to sentence `owners` [chunks]; the next of the
    same sentence begins `step` tokens later. Sentences begin at `offsets` [sentences + 1].
    """

    starts: Any
    owners: Any
    offsets: Any
    step: int

    def __len__(self) -> int:
        return len(self.starts)


def geometry(
    source: int, tokens: int, products: int, chunks: int, dimension: int, *, vector: int = 1
) -> Launch:
    """A block for each chunk and tile of channels; `vector` floats to a read."""
    channels = 1 if source == CHANNEL_ROWS else vector
    defines = (
        ("SOURCE", source),
        ("TOKENS", tokens),
        ("PRODUCTS", products),
        ("VECTOR", vector),
        ("THREADS", THREADS),
    )
    grid = (chunks, ceil_div(dimension, THREADS * channels), 1)
    return Launch(KERNEL, defines, grid, (THREADS, 1, 1))


def toomcook_channels(run: Runner, x: Any, chunks: Chunks, matrix: Any, v: Any) -> None:
    """v [products, chunks, dimension] = matrix [products, tokens] times each chunk of x.

    x [sentences, dimension, length] is channel first.
    """
    sentences, dimension, length = x.shape
    check_shape("toomcook_channels offsets", chunks.offsets.shape, (sentences + 1,))
    several = length > matrix.shape[1]  # chunks of a sentence
    vector = 1 if length % 4 or (several and chunks.step % 4) else 4
    _run(run, CHANNEL_ROWS, x, chunks.starts, chunks, matrix, v, dimension, vector, length)


def toomcook_ids(run: Runner, ids: Any, table: Any, chunks: Chunks, matrix: Any, v: Any) -> None:
    """The same of the rows ids [tokens] of table [vocabulary, dimension]."""
    dimension = table.shape[1]
    vector = 1 if dimension % 4 else 4
    _run(run, TABLE_ROWS, table, ids, chunks, matrix, v, dimension, vector)


def _run(
    run: Runner,
    source: int,
    x: Any,
    ids: Any,
    chunks: Chunks,
    matrix: Any,
    v: Any,
    dimension: int,
    vector: int,
    length: int = 0,
) -> None:
    (products, tokens), count = matrix.shape, len(chunks)
    check_shape("toomcook_input owners", chunks.owners.shape, (count,))
    check_shape("toomcook_input v", v.shape, (products, count, dimension))
    launch = geometry(source, tokens, products, count, dimension, vector=vector)
    lists = (chunks.starts, chunks.owners, chunks.offsets)
    run(launch, x, ids, *lists, matrix, v, count, dimension, length)
