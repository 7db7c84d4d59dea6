"""Every kernel in each kind of variant that is compiled, with the sizes of the school network."""

from __future__ import annotations

from accel_cli.kernels import (
    argmax,
    cast,
    concat,
    conv1d,
    embedding,
    folded_convolution,
    folded_scale,
    folded_table,
    gemm_tiled,
    getmax,
    im2col,
    lab_copy,
    lab_fma,
    lab_gemm,
    lab_shared,
    lab_softmax,
    lab_transpose,
    linear,
    mma_gemm,
    pack_taps,
    pack_tiles,
    relu,
    relu_add,
    reread,
    scale_add,
    sgemm,
    skinny,
    softmax,
    text_ends,
    text_invalid,
    text_lengths,
    text_lines,
    text_lookup,
    text_marks,
    text_offsets,
    text_points,
    text_rows,
    text_sums,
    toomcook_input,
    toomcook_output,
    toomcook_weights,
    transpose,
    wgmma_gemm,
    window_max,
    windows,
)
from accel_cli.kernels.base import Launch
from accel_cli.kernels.folded_layout import TableType
from accel_cli.kernels.tensor_operands import Output


def variants() -> list[Launch]:
    """One launch for each variant; the grids are those of a single element."""
    return [*of_engines(), *lab(), *(reread.geometry(1, near=near) for near in (True, False))]


def of_engines() -> list[Launch]:
    """Those that classify."""
    return [
        embedding.geometry(1, 1),
        conv1d.geometry(1, 1),
        relu.geometry(1),
        *relu_add.variants(),
        getmax.geometry(1, 1),
        concat.geometry(1, 1),
        linear.geometry(1, 1),
        softmax.geometry(1),
        scale_add.geometry(1, 1),
        argmax.geometry(1),
        windows.geometry(1),
        *(transpose.geometry(1, 1, columns) for columns in (1, 32)),
        pack_taps.geometry(1, 1),
        *(im2col.geometry(1, dimension, dimension) for dimension in (1, 4)),
        gemm_tiled.geometry(1, 1),
        window_max.geometry(1, 1),
        *sgemm.variants(),
        *skinny.variants(),
        folded_scale.geometry(1),
        *(folded_table.geometry(1, table, filters) for table in TableType for filters in (1, 1024)),
        *folded_convolution.variants(),
        *text(),
        *_toomcook(),
        *_tensor(),
    ]


def text() -> list[Launch]:
    """Those that read text and write rows."""
    by_tile_or_line = (
        text_ends,
        text_invalid,
        text_lengths,
        text_lines,
        text_lookup,
        text_marks,
        text_offsets,
        text_rows,
    )
    return [
        *(kernel.geometry(1) for kernel in by_tile_or_line),
        text_points.geometry(1, 2),
        text_sums.geometry(),
    ]


def lab() -> list[Launch]:
    """Those of the experiments of `accel bench --suite`."""
    return [
        *lab_copy.variants(),
        *lab_transpose.variants(),
        *lab_softmax.variants(),
        *lab_gemm.variants(),
        lab_fma.geometry(1),
        lab_shared.geometry(1),
    ]


def _toomcook() -> list[Launch]:
    """For chunks of 16 tokens, the longest there are, the products that they take, and school's widths."""
    tokens, products = 16, 18
    sources = (toomcook_input.CHANNEL_ROWS, toomcook_input.TABLE_ROWS)
    return [
        *(
            toomcook_input.geometry(source, tokens, products, 1, 1, vector=vector)
            for source in sources
            for vector in (1, 4)
        ),
        *(toomcook_output.geometry(tokens, products, 1, 1, 1, vector=vector) for vector in (1, 4)),
        *(toomcook_weights.geometry(width, 1, 1) for width in (3, 5, 7, 9)),
    ]


def _tensor() -> list[Launch]:
    """Operands of tensor cores of every kind, and their products."""
    stored = (Output.FP16, Output.BF16, Output.TF32, Output.SPLIT)
    return [
        *(cast.geometry(1, output, packed) for output in stored for packed in (False, True)),
        *(transpose.geometry(1, 1, columns, output) for output in stored for columns in (1, 32)),
        *(pack_tiles.geometry(1, 1, output) for output in stored),
        *mma_gemm.variants(),
        *wgmma_gemm.variants(),
    ]
