"""Host twin of kernels_cu/folded_convolution.cu."""

from __future__ import annotations

from typing import Any

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.folded_layout import ROW_BYTES, TABLE_DTYPES, Layout, Table, TableType, slice_of
from accel_cli.kernels.tensor_operands import DTYPES, Output, as_bytes, halves, low_of

THREADS, BLOCKS = 256, 2  # of a block, and blocks that a processor is to hold
AT_ONCE, CHUNK = 2, 32  # windows that a thread takes at once; ids that are staged
LANES = ROW_BYTES // 16  # threads that read a row together: a group
GROUPS = 32 // LANES  # of a warp

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


def variants() -> list[Launch]:
    """One launch for each kind of table and features with school's widths; the last has odd rows."""
    layouts = {table: Layout(table, 1, (3, 5, 7, 9), 1) for table in TableType}
    return [
        *(geometry(1, layouts[table], output, spread=s) for table, output in _KINDS for s in (1, GROUPS)),
        geometry(1, layouts[TableType.FIXED], aligned=False),
    ]


def geometry(
    sentences: int, layout: Layout, output: Output = Output.FP32, *, spread: int = 1, aligned: bool = True
) -> Launch:
    """A block for each slice and as many sentences as it has teams of `spread` groups; slices in turn."""
    defines = (
        *(("TYPE", int(layout.type)), ("ROW_BYTES", ROW_BYTES), ("OUTPUT", int(output))),
        *(("WIDTHS", sum(1 << width for width in set(layout.widths))), ("SPREAD", spread)),
        *(("AT_ONCE", AT_ONCE), ("CHUNK", CHUNK), ("ALIGNED", int(aligned))),
        *(("THREADS", THREADS), ("BLOCKS", BLOCKS)),
    )
    teams = THREADS // (LANES * spread)
    grid = (ceil_div(sentences, teams), len(layout.widths) * layout.slices, 1)
    return Launch(KERNEL, defines, grid, (THREADS, 1, 1))


def folded_convolution(
    run: Runner,
    ids: Any,
    offsets: Any,
    table: Table,
    features: Any,
    output: Output = Output.FP32,
    *,
    spread: int = GROUPS,
) -> None:
    """features [sentences, pitch] = the pooled windows of all widths; [2, sentences, pitch] if split.

    Sentence i is the words ids [tokens] from offsets[i] to offsets[i + 1], at least as many as the widest
    convolution takes. `spread` groups of threads share its windows, 1, 2 or 4: one is best where all
    sentences have one length. What lies behind the features of each row stays as it is.
    """
    layout, sentences, pitch = table.layout, offsets.shape[0] - 1, features.shape[-1]
    columns = len(layout.widths) * layout.filters
    check_shape(
        "folded_convolution features", features.shape, (*halves(output), sentences, max(pitch, columns))
    )
    vector = slice_of(layout.type) // LANES
    aligned = not (layout.filters % vector or pitch % vector)
    launch = geometry(sentences, layout, output, spread=spread, aligned=aligned)
    low = low_of(features, output == Output.SPLIT)
    values = as_bytes("folded_convolution table", table.values, TABLE_DTYPES[layout.type])
    written = as_bytes("folded_convolution features", features, DTYPES[output])
    sizes = (sentences, layout.vocabulary, layout.filters, pitch, low)
    if sentences:
        run(launch, ids, offsets, table.taps, values, table.scale, table.after, written, *sizes)
