"""Host twin of kernels_cu/skinny.cu."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from accel_cli.kernels.base import Array, Kernel, Launch, Runner, Scalar, ceil_div, check_shape
from accel_cli.kernels.tensor_operands import (
    DTYPES,
    Output,
    as_bytes,
    halves,
    low_of,
    packed_rows,
    packed_shape_of,
)

THREADS = 128
WIDEST = 16  # columns whose sums a thread keeps in registers
DEEP = 1024  # values of a row from which on all warps of a block share it
_MOST_ROWS = 4  # of a team


class Epilogue(IntEnum):
    """What becomes of a row's sums."""

    STORE = 0
    SOFTMAX = 1
    SCORES = 2


KERNEL = Kernel(
    "skinny",
    (
        Array("a", "uint8"),
        Array("weight", "float32"),
        Array("bias", "float32"),
        Array("y", "float32", written=True),
        Array("scores", "float32", written=True),
        Array("label", "int32", written=True),
        Scalar("rows", "int64"),
        Scalar("depth", "int32"),
        Scalar("pitch", "int32"),
        Scalar("low", "int64"),
    ),
)


_PACKED = (Output.FP16, Output.BF16, Output.SPLIT)


def variants() -> list[Launch]:
    """One launch for each way in which the engines take it, with as many experts and labels as school has."""
    fp32 = Output.FP32
    return [
        *(geometry(1, outputs, depth, fp32) for outputs in (2, 4) for depth in (1, DEEP)),
        *(geometry(1, 4, DEEP, stored, Epilogue.SOFTMAX) for stored in Output),
        *(geometry(1, 4, DEEP, stored, Epilogue.SOFTMAX, packed=True) for stored in _PACKED),
        geometry(1, 4, 1, Output.FP16, Epilogue.SOFTMAX, packed=True),
        geometry(1, 4, 1, fp32, Epilogue.SOFTMAX),
        *(geometry(1, 2, 1, fp32, Epilogue.SCORES, aligned=aligned) for aligned in (True, False)),
        geometry(1, WIDEST, 1, fp32, Epilogue.SCORES),
    ]


def vector_of(stored: Output) -> int:
    """How many values a thread reads at once: 16 bytes of them."""
    return 16 // np.dtype(DTYPES[stored]).itemsize


def geometry(
    rows: int,
    outputs: int,
    depth: int,
    stored: Output = Output.FP32,
    epilogue: Epilogue = Epilogue.STORE,
    *,
    aligned: bool = True,
    packed: bool = False,
) -> Launch:
    """A team of warps for some rows of y [rows, outputs]: all warps of a block, or one."""
    warps = THREADS // 32 if depth >= DEEP else 1
    each = min(_MOST_ROWS, WIDEST // outputs)
    defines = (
        *(("THREADS", THREADS), ("WARPS", warps), ("ROWS", each), ("OUTPUTS", outputs)),
        *(("INPUT", int(stored)), ("EPILOGUE", int(epilogue)), ("ALIGNED", int(aligned))),
        ("PACKED", int(packed)),
    )
    teams = THREADS // 32 // warps
    return Launch(KERNEL, defines, (ceil_div(rows, teams * each), 1, 1), (THREADS, 1, 1))


def skinny(run: Runner, a: Any, weight: Any, bias: Any, y: Any, stored: Output = Output.FP32) -> None:
    """y [M, N] = a [M, K or more] times weight [N, K] transposed, plus bias [N]; N is at most WIDEST.

    `a` [2, M, K or more] if what is `stored` is split; what lies behind K in its rows is not read.
    """
    _launch(run, a, weight, bias, (y, y, y.view("int32")), stored, Epilogue.STORE)


def skinny_softmax(
    run: Runner,
    a: Any,
    weight: Any,
    bias: Any,
    y: Any,
    stored: Output = Output.FP32,
    *,
    packed: bool = False,
) -> None:
    """The same, and y = softmax over each of its rows.

    With `packed` a is an operand [steps, M up to a multiple of 8, values of 128 bytes], of whole steps.
    """
    _launch(run, a, weight, bias, (y, y, y.view("int32")), stored, Epilogue.SOFTMAX, packed=packed)


def skinny_scores(
    run: Runner,
    a: Any,
    weight: Any,
    bias: Any,
    y: Any,
    scores: Any,
    label: Any,
    stored: Output = Output.FP32,
) -> None:
    """The same y, its softmax as scores [M, N], and the column of the largest as label [M]."""
    check_shape("skinny scores", scores.shape, y.shape)
    check_shape("skinny label", label.shape, y.shape[:1])
    _launch(run, a, weight, bias, (y, scores, label), stored, Epilogue.SCORES)


def _launch(
    run: Runner,
    a: Any,
    weight: Any,
    bias: Any,
    written: tuple[Any, Any, Any],
    stored: Output,
    epilogue: Epilogue,
    *,
    packed: bool = False,
) -> None:
    """Run it; `written` has y once more in the place of an array that this epilogue does not write."""
    outputs, depth = weight.shape
    if not 1 <= outputs <= WIDEST:
        raise ValueError(f"skinny: {outputs} columns, expected 1 to {WIDEST}")
    rows, pitch = a.shape[-2:]
    shape: tuple[int, ...] = (rows, max(pitch, depth))
    if packed:
        rows = written[0].shape[0]
        shape, pitch = packed_shape_of(rows, depth, stored), packed_rows(rows)
    check_shape("skinny a", a.shape, (*halves(stored), *shape))
    check_shape("skinny bias", bias.shape, (outputs,))
    check_shape("skinny y", written[0].shape, (rows, outputs))
    vector = vector_of(stored)
    aligned = not (depth % vector or (pitch % vector and not packed))
    launch = geometry(rows, outputs, depth, stored, epilogue, aligned=aligned, packed=packed)
    low = low_of(a, stored == Output.SPLIT)
    run(launch, as_bytes("skinny a", a, DTYPES[stored]), weight, bias, *written, rows, depth, pitch, low)
