"""Host twin of kernels_cu/toomcook_output.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.toomcook_input import Chunks

THREADS = 128

KERNEL = Kernel(
    "toomcook_output",
    (
        Array("m", "float32"),
        Array("bias", "float32"),
        Array("matrices", "float32"),
        Array("widths", "int32"),
        Array("starts", "int32"),
        Array("owners", "int32"),
        Array("offsets", "int32"),
        Array("features", "float32", written=True),
        Scalar("chunks", "int32"),
        Scalar("filters", "int32"),
        Scalar("pitch", "int32"),
    ),
)


def geometry(
    tokens: int, products: int, chunks: int, widths: int, filters: int, *, vector: int = 1
) -> Launch:
    """A block for each chunk, width and tile of filters; `vector` filters to a thread."""
    defines = (("TOKENS", tokens), ("PRODUCTS", products), ("VECTOR", vector), ("THREADS", THREADS))
    grid = (chunks, ceil_div(filters, THREADS * vector), widths)
    return Launch(KERNEL, defines, grid, (THREADS, 1, 1))


def toomcook_output(
    run: Runner, m: Any, bias: Any, matrices: Any, widths: Any, chunks: Chunks, features: Any
) -> None:
    """features [sentences, widths * filters] = ReLU and maximum over the windows of each sentence.

    The windows come from the products m [products, chunks, pitch], whose columns are the filters of all
    widths side by side, through matrices [widths, tokens, products]; bias [widths * filters] is added. The
    features must be zeros before.
    """
    (products, count, pitch), (kinds, tokens, _) = m.shape, matrices.shape
    sentences, columns = features.shape
    filters = columns // kinds
    check_shape("toomcook_output m", m.shape, (products, len(chunks), max(pitch, columns)))
    check_shape("toomcook_output matrices", matrices.shape, (kinds, tokens, products))
    check_shape("toomcook_output widths", widths.shape, (kinds,))
    check_shape("toomcook_output bias", bias.shape, (kinds * filters,))
    check_shape("toomcook_output offsets", chunks.offsets.shape, (sentences + 1,))
    vector = 1 if filters % 4 or pitch % 4 else 4
    launch = geometry(tokens, products, count, kinds, filters, vector=vector)
    lists = (chunks.starts, chunks.owners, chunks.offsets)
    run(launch, m, bias, matrices, widths, *lists, features, count, filters, pitch)
