"""Host twin of kernels_cu/folded_convolution.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.folded_layout import LINE, TABLE_DTYPES, Layout, Table, TableType
from accel_cli.kernels.tensor_operands import (
    DTYPES,
    Output,
    as_bytes,
    halves,
    low_of,
    output_step,
    packed_rows,
    packed_shape_of,
)

THREADS, BLOCKS = 128, 6  # of a block, and blocks that a processor is to hold
_FEWER = 4  # where registers would be spilled: few sentences do not fill the device, floats take more room
AT_ONCE, CHUNK = 2, 32  # windows that a thread takes at once; ids that are staged
_WARP, _VECTOR_BYTES = 32, 16  # threads; bytes that one of them reads at once

KERNEL = Kernel(
    "folded_convolution",
    (
        Array("ids", "int32"),
        Array("offsets", "int32"),
        Array("taps", "int32"),
        Array("table", "uint8"),
        Array("scale", "float32"),
        Array("after", "float32"),
        Array("features", "uint8", written=True),
        Scalar("sentences", "int32"),
        Scalar("vocabulary", "int32"),
        Scalar("filters", "int32"),
        Scalar("pitch", "int32"),
        Scalar("low", "int64"),
    ),
)


# What tables and features the precisions ask for.
_KINDS = (
    *((TableType.FP32, output) for output in (Output.FP32, Output.SPLIT)),
    *((TableType.FP16, output) for output in (Output.FP32, Output.FP16)),
    *((TableType.FIXED, output) for output in (Output.FP32, Output.FP16, Output.BF16, Output.TF32)),
)


_PACKED = ((TableType.FP32, Output.SPLIT), (TableType.FIXED, Output.FP16), (TableType.FIXED, Output.BF16))


def variants() -> list[Launch]:
    """One launch for each kind of table and features with school's widths, rows of one and of four lines."""
    wide, narrow = ({t: Layout(t, 1, (3, 5, 7, 9), filters) for t in TableType} for filters in (1024, 1))
    fixed = narrow[TableType.FIXED]
    return [
        *(geometry(1, wide[table], output) for table, output in _KINDS),
        *(geometry(1, wide[table], output, packed=True) for table, output in _PACKED),
        *(geometry(1, fixed, Output.FP16, spread=spread, packed=True) for spread in spreads_of(fixed)),
        *(geometry(1, narrow[table], output, spread=spread) for table, output in _KINDS for spread in (1, 4)),
        *(geometry(1, fixed, spread=spread, aligned=False) for spread in spreads_of(fixed)),
    ]


def packs_features(layout: Layout, output: Output) -> bool:
    """Whether the features can be stored as a packed operand: whole steps of it, a thread's in one piece."""
    columns = len(layout.widths) * layout.filters
    vector = layout.slice_filters * _VECTOR_BYTES // layout.row_bytes
    piece = _VECTOR_BYTES // np.dtype(DTYPES[output]).itemsize
    return not (columns % output_step(output) or layout.filters % vector) and vector <= piece


def groups_of(layout: Layout) -> int:
    """Groups of a warp: the threads of one read a row together."""
    return _WARP * _VECTOR_BYTES // layout.row_bytes


def spreads_of(layout: Layout) -> list[int]:
    """How many groups may share the windows of a sentence."""
    return [spread for spread in (1, 2, 4) if spread <= groups_of(layout)]


def spread_of(layout: Layout, sentences: int, processors: int) -> int:
    """How many are to share them: as few as give all processors work."""
    *fewer, most = spreads_of(layout)
    busy = (spread for spread in fewer if _blocks(sentences, layout, spread) >= processors * BLOCKS)
    return next(busy, most)


def _blocks(sentences: int, layout: Layout, spread: int) -> int:
    return ceil_div(sentences, _teams(layout, spread)) * len(layout.widths) * layout.slices


def _teams(layout: Layout, spread: int) -> int:
    """Sentences of a block."""
    return THREADS // _WARP * groups_of(layout) // spread


def geometry(
    sentences: int,
    layout: Layout,
    output: Output = Output.FP32,
    *,
    spread: int = 1,
    aligned: bool = True,
    packed: bool = False,
) -> Launch:
    """A block for each slice and as many sentences as it has teams of `spread` groups; slices in turn."""
    if spread > groups_of(layout):
        raise ValueError(f"{spread} groups for a sentence, a warp has {groups_of(layout)}")
    roomy = spread > 1 or (layout.type != TableType.FIXED and layout.row_bytes == LINE)
    defines = (
        *(("TYPE", int(layout.type)), ("ROW_BYTES", layout.row_bytes), ("OUTPUT", int(output))),
        *(("WIDTHS", sum(1 << width for width in set(layout.widths))), ("SPREAD", spread)),
        *(("AT_ONCE", AT_ONCE), ("CHUNK", CHUNK), ("ALIGNED", int(aligned))),
        *(("THREADS", THREADS), ("BLOCKS", _FEWER if roomy else BLOCKS), ("PACKED", int(packed))),
    )
    grid = (ceil_div(sentences, _teams(layout, spread)), len(layout.widths) * layout.slices, 1)
    return Launch(KERNEL, defines, grid, (THREADS, 1, 1))


def folded_convolution(
    run: Runner,
    ids: Any,
    offsets: Any,
    table: Table,
    features: Any,
    output: Output = Output.FP32,
    *,
    spread: int = 1,
    packed: bool = False,
) -> None:
    """features [sentences, pitch] = the pooled windows of all widths; [2, sentences, pitch] if split.

    Sentence i is the words ids [tokens] from offsets[i] to offsets[i + 1], at least as many as the widest
    convolution takes. `spread` groups of threads share its windows (see spread_of). What lies behind the
    features of each row stays as it is.

    With `packed` the features are an operand [steps, sentences up to a multiple of 8, values of 128 bytes],
    as packs_features says where that can be.
    """
    layout, sentences = table.layout, offsets.shape[0] - 1
    columns = len(layout.widths) * layout.filters
    pitch = packed_rows(sentences) if packed else features.shape[-1]
    shape: tuple[int, ...] = (sentences, max(pitch, columns))
    if packed:
        shape = packed_shape_of(sentences, columns, output)
    check_shape("folded_convolution features", features.shape, (*halves(output), *shape))
    vector = layout.slice_filters * _VECTOR_BYTES // layout.row_bytes
    aligned = not (layout.filters % vector or pitch % vector)
    launch = geometry(sentences, layout, output, spread=spread, aligned=aligned, packed=packed)
    low = low_of(features, output == Output.SPLIT)
    values = as_bytes("folded_convolution table", table.values, TABLE_DTYPES[layout.type])
    written = as_bytes("folded_convolution features", features, DTYPES[output])
    sizes = (sentences, layout.vocabulary, layout.filters, pitch, low)
    if sentences:
        run(launch, ids, offsets, table.taps, values, table.scale, table.after, written, *sizes)
