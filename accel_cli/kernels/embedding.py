"""Host twin of kernels_cu/embedding.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, check_shape, elementwise

KERNEL = Kernel(
    "embedding",
    (
        Array("ids", "int32"),
        Array("table", "float32"),
        Array("x", "float32", written=True),
        Scalar("tokens", "int64"),
        Scalar("dimension", "int32"),
    ),
)


def geometry(tokens: int, dimension: int) -> Launch:
    """One thread an element of x [tokens, dimension]."""
    return elementwise(KERNEL, tokens * dimension)


def embedding(run: Runner, ids: Any, table: Any, x: Any) -> None:
    """x [tokens, dimension] = table [vocabulary, dimension] at ids [tokens]."""
    (tokens,), (_, dimension) = ids.shape, table.shape
    check_shape("embedding x", x.shape, (tokens, dimension))
    run(geometry(tokens, dimension), ids, table, x, tokens, dimension)
