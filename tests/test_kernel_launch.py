"""The typed launch and the geometry of every host twin; no kernel runs here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tensor_calls import TENSOR_CALLS

from accel_cli import resources
from accel_cli.kernels.argmax import argmax
from accel_cli.kernels.base import Array, Kernel, Launch, Scalar, ceil_div, check_shape, elementwise
from accel_cli.kernels.catalogue import of_engines, variants
from accel_cli.kernels.concat import concat
from accel_cli.kernels.conv1d import conv1d
from accel_cli.kernels.embedding import embedding
from accel_cli.kernels.folded_convolution import folded_convolution
from accel_cli.kernels.folded_layout import TABLE_DTYPES, Layout, Table, TableType
from accel_cli.kernels.folded_scale import folded_scale
from accel_cli.kernels.folded_table import folded_table
from accel_cli.kernels.gemm_tiled import gemm_tiled
from accel_cli.kernels.getmax import getmax
from accel_cli.kernels.im2col import im2col
from accel_cli.kernels.linear import linear
from accel_cli.kernels.pack_taps import pack_taps
from accel_cli.kernels.relu import relu
from accel_cli.kernels.relu_add import relu_add
from accel_cli.kernels.scale_add import scale_add
from accel_cli.kernels.sgemm import (
    sgemm,
    sgemm_batched,
    sgemm_experts,
    sgemm_ids,
    sgemm_residual,
    sgemm_windows,
)
from accel_cli.kernels.skinny import skinny, skinny_scores, skinny_softmax
from accel_cli.kernels.softmax import softmax
from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_ends import text_ends
from accel_cli.kernels.text_invalid import text_invalid
from accel_cli.kernels.text_lengths import text_lengths
from accel_cli.kernels.text_lines import text_lines
from accel_cli.kernels.text_lookup import Tokens, Words, text_lookup
from accel_cli.kernels.text_marks import text_marks
from accel_cli.kernels.text_offsets import text_offsets
from accel_cli.kernels.text_points import text_points
from accel_cli.kernels.text_rows import POINTS, text_rows
from accel_cli.kernels.text_sums import text_sums
from accel_cli.kernels.toomcook_input import Chunks, toomcook_channels, toomcook_ids
from accel_cli.kernels.toomcook_output import toomcook_output
from accel_cli.kernels.toomcook_weights import toomcook_weights
from accel_cli.kernels.transpose import transpose
from accel_cli.kernels.window_max import window_max
from accel_cli.kernels.windows import windows

KERNEL = Kernel(
    "example",
    (Array("x", "float32"), Scalar("rows", "int64"), Scalar("columns", "int32"), Scalar("scale", "float32")),
)
X = np.zeros((2, 3), np.float32)


def f(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def i(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


def test_arguments_become_the_types_of_the_kernel() -> None:
    x, rows, columns, scale = KERNEL.pack((X, 2**40, np.int64(-3), 1))
    assert x is X
    assert [(type(value), value) for value in (rows, columns, scale)] == [
        (np.int64, 2**40),
        (np.int32, -3),
        (np.float32, 1.0),
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((X, 1, 2), TypeError, "kernel example takes 4 arguments, got 3"),
        ((X, 1, 2, 3.0, 4), TypeError, "kernel example takes 4 arguments, got 5"),
        ((X, 1.0, 2, 3.0), TypeError, r"argument rows: 1.0 is no int64"),
        ((X, 1, np.float32(2), 3.0), TypeError, "argument columns: .*2.0.* is no int32"),
        ((X, 1, "2", 3.0), TypeError, "argument columns: '2' is no int32"),
        ((X, 1, None, 3.0), TypeError, "argument columns: None is no int32"),
        ((X, 1, X, 3.0), TypeError, r"(?s)argument columns: .* is no int32"),
        ((X, 1, 2, "x"), TypeError, "argument scale: 'x' is no float32"),
        ((X, 1, 2**31, 3.0), OverflowError, "argument columns: 2147483648 does not fit int32"),
        ((X, 1, np.int64(2**31), 3.0), OverflowError, "argument columns: 2147483648 does not fit int32"),
        ((X, 1, -(2**31) - 1, 3.0), OverflowError, "does not fit int32"),
        ((X, 2**63, 2, 3.0), OverflowError, "argument rows: 9223372036854775808 does not fit int64"),
        ((X, 1, 2, 1e300), OverflowError, "argument scale: 1e.300 does not fit float32"),
        (
            (X.astype(np.float64), 1, 2, 3.0),
            TypeError,
            "argument x: expected an array of float32, got float64",
        ),
        (([1.0], 1, 2, 3.0), TypeError, "argument x: expected an array of float32, got <class 'list'>"),
        ((3, 1, 2, 3.0), TypeError, "argument x: expected an array of float32"),
        ((X.T, 1, 2, 3.0), ValueError, r"argument x: the array is not C-contiguous \(strides \(4, 12\)\)"),
        ((X[:, ::2], 1, 2, 3.0), ValueError, "not C-contiguous"),
    ],
)
def test_arguments_that_do_not_fit(arguments: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        KERNEL.pack(arguments)


def test_the_extremes_fit() -> None:
    KERNEL.pack((X, 2**63 - 1, 2**31 - 1, np.inf))
    KERNEL.pack((X, -(2**63), -(2**31), np.float32(3e38)))
    KERNEL.pack((X[:0], 0, 0, 0))


def b(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint8)


def u(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint32)


class Recorder:
    """A runner that keeps what it is given, packed as a device would."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def __call__(self, launch: Launch, *arguments: Any) -> None:
        launch.kernel.pack(arguments)
        self.launches.append(launch)


def chunks(count: int = 2, step: int = 8) -> Chunks:
    return Chunks(i(count), i(count), i(3), step)


def pool(run: Recorder, filters: int) -> None:
    columns = 2 * filters
    arrays = (f(18, 2, 16), f(columns), f(2, 16, 18), i(2))
    toomcook_output(run, *arrays, chunks(), f(2, columns))


def transform(run: Recorder, width: int) -> None:
    toomcook_weights(run, f(6, 4, width), np.zeros((18, width)), f(18, 4, 12), 6)


def fold(run: Recorder, table: TableType, filters: int = 8, spread: int = 1) -> None:
    layout, columns = Layout(table, 40, (3, 5, 7, 9), filters), 4 * filters
    values = np.zeros(layout.size, TABLE_DTYPES[table])
    whole = Table(layout, values, i(5), f(columns), f(columns))
    folded_convolution(run, i(32), i(3), whole, f(2, columns), spread=spread)


def look_up(run: Recorder) -> None:
    marks = Tokens(u(1, 128), u(1, 128), u(1, 128), i(1), i(1))
    text_lookup(run, b(9), marks, i(5), i(6), Words(u(8, 4), b(20), 2, 7), i(30))


def measure(run: Recorder) -> None:
    text_lengths(run, b(9), i(5), i(5), i(6), i(6), i(1), b(5), b(5), (1, 2, 128))


def score(run: Recorder) -> None:
    at = i(2 * 2 + POINTS + 1)
    text_points(run, f(5, 2), f(5, 2), i(5), at, i(5), i(1), i(2), i(8))


Call = Callable[[Recorder], None]

# What the engine calls a kernel with, for each set of constants that follows from it.
CALLS: list[tuple[str, Call]] = [
    ("argmax", lambda run: argmax(run, f(5, 3), i(5))),
    ("concat", lambda run: concat(run, f(5, 3), f(5, 9), 6)),
    ("conv1d", lambda run: conv1d(run, f(9, 4), f(6, 4, 3), f(6), i(3), f(9, 6), (4, 1))),
    ("embedding", lambda run: embedding(run, i(9), f(40, 4), f(9, 4))),
    ("folded_convolution", lambda run: fold(run, TableType.FP32)),
    ("folded_convolution", lambda run: fold(run, TableType.FP16, spread=4)),
    ("folded_convolution", lambda run: fold(run, TableType.FIXED)),
    ("folded_convolution", lambda run: fold(run, TableType.FIXED, filters=7)),
    ("folded_scale", lambda run: folded_scale(run, f(3, 5, 8), f(8), f(3, 8), f(8), f(8))),
    ("folded_table", lambda run: folded_table(run, f(3, 5, 8), f(480), TableType.FP32)),
    ("gemm_tiled", lambda run: gemm_tiled(run, f(5, 3), f(2, 3), f(2), f(5, 2))),
    ("getmax", lambda run: getmax(run, f(9, 6), i(3), f(2, 6), 3)),
    ("im2col", lambda run: im2col(run, f(9, 8), i(5), f(5, 24))),
    ("im2col", lambda run: im2col(run, f(9, 7), i(5), f(5, 21))),
    ("linear", lambda run: linear(run, f(5, 3), f(2, 3), f(2), f(5, 2))),
    ("pack_taps", lambda run: pack_taps(run, f(6, 4, 3), f(12, 8))),
    ("relu", lambda run: relu(run, f(5, 3))),
    ("relu_add", lambda run: relu_add(run, f(5, 3), f(5, 3), f(3), f(5, 3))),
    ("scale_add", lambda run: scale_add(run, f(5, 2), f(2, 5, 7), f(5, 7))),
    ("sgemm", lambda run: sgemm(run, f(5, 3), f(3, 4), f(2), f(5, 2))),
    ("sgemm", lambda run: sgemm(run, f(5, 3), f(3, 4), f(2), f(5, 2), relu=True)),
    ("sgemm", lambda run: sgemm_residual(run, f(5, 3), f(3, 4), f(3), f(5, 3))),
    ("sgemm", lambda run: sgemm_batched(run, f(2, 5, 3), f(2, 3, 4), f(2, 5, 4))),
    ("sgemm", lambda run: sgemm_windows(run, f(9, 16), i(5), i(5), f(48, 8), f(6), f(2, 9), 3)),
    ("sgemm", lambda run: sgemm_ids(run, i(9), f(40, 16), i(5), i(5), f(48, 8), f(6), f(2, 9), 3)),
    ("sgemm", lambda run: sgemm_experts(run, f(5, 3), f(5, 4), f(3, 28), f(28), f(5, 7))),
    ("skinny", lambda run: skinny(run, f(5, 4), f(2, 4), f(2), f(5, 2))),
    ("skinny", lambda run: skinny_softmax(run, f(5, 4), f(4, 4), f(4), f(5, 4))),
    ("skinny", lambda run: skinny_scores(run, f(5, 4), f(2, 4), f(2), f(5, 2), f(5, 2), i(5))),
    ("softmax", lambda run: softmax(run, f(5, 3), f(5, 3))),
    ("text_ends", lambda run: text_ends(run, u(1, 128), u(1, 128), i(1), i(1), i(5), i(5))),
    ("text_invalid", lambda run: text_invalid(run, b(9), 9, i(6))),
    ("text_lengths", measure),
    ("text_lines", lambda run: text_lines(run, b(9), 9, u(1, 128), i(1))),
    ("text_lookup", look_up),
    ("text_marks", lambda run: text_marks(run, b(9), 9, u(1, 128), u(1, 128), u(1, 128), i(1), 128)),
    ("text_offsets", lambda run: text_offsets(run, i(5), i(6), i(1), i(6), i(30), 1, 1)),
    ("text_points", score),
    ("text_rows", lambda run: text_rows(run, i(5), i(5), i(1), i(2 * 2 + POINTS + 1), b(90), b(200))),
    ("text_sums", lambda run: text_sums(run, i(9), i(6), Count.LINES)),
    ("toomcook_input", lambda run: toomcook_ids(run, i(32), f(40, 8), chunks(), f(18, 16), f(18, 2, 8))),
    ("toomcook_input", lambda run: toomcook_ids(run, i(32), f(40, 7), chunks(), f(18, 16), f(18, 2, 7))),
    ("toomcook_input", lambda run: toomcook_channels(run, f(2, 7, 16), chunks(), f(18, 16), f(18, 2, 7))),
    ("toomcook_input", lambda run: toomcook_channels(run, f(2, 7, 18), chunks(4), f(18, 16), f(18, 4, 7))),
    ("toomcook_output", lambda run: pool(run, 8)),
    ("toomcook_output", lambda run: pool(run, 7)),
    *(("toomcook_weights", partial(transform, width=width)) for width in (3, 5, 7, 9)),
    ("transpose", lambda run: transpose(run, f(2, 5, 3), f(2, 3, 5))),
    ("window_max", lambda run: window_max(run, f(9, 6), i(9), f(2, 12), 6)),
    ("windows", lambda run: windows(run, i(3), 3, i(9), i(9))),
    *TENSOR_CALLS,
]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_a_right_call_is_one_launch_of_the_kernel_of_that_name(name: str, call: Call) -> None:
    run = Recorder()
    call(run)
    [launch] = run.launches
    assert launch.kernel.name == name
    assert min(*launch.grid, *launch.block) >= 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: argmax(run, f(5, 3), i(4)), r"argmax label: shape \(4,\), expected \(5,\)"),
        (lambda run: concat(run, f(5, 3), f(4, 9), 0), r"concat y: shape \(4, 9\), expected \(5, 9\)"),
        (lambda run: concat(run, f(5, 3), f(5, 9), 7), "concat: 3 columns at 7 do not fit into 9"),
        (lambda run: concat(run, f(5, 3), f(5, 9), -1), "concat: 3 columns at -1 do not fit into 9"),
        (
            lambda run: conv1d(run, f(9, 4), f(6, 4, 3), f(5), i(3), f(9, 6), (4, 1)),
            r"conv1d bias: shape \(5,\), expected \(6,\)",
        ),
        (
            lambda run: conv1d(run, f(9, 4), f(6, 4, 3), f(6), i(3), f(8, 6), (4, 1)),
            r"conv1d y: shape \(8, 6\), expected \(9, 6\)",
        ),
        (
            lambda run: embedding(run, i(9), f(40, 4), f(9, 5)),
            r"embedding x: shape \(9, 5\), expected \(9, 4\)",
        ),
        (
            lambda run: getmax(run, f(9, 6), i(4), f(2, 6), 3),
            r"getmax offsets: shape \(4,\), expected \(3,\)",
        ),
        (lambda run: getmax(run, f(9, 5), i(3), f(2, 6), 3), r"getmax y: shape \(9, 5\), expected \(9, 6\)"),
        (
            lambda run: linear(run, f(5, 3), f(2, 4), f(2), f(5, 2)),
            r"linear weight: shape \(2, 4\), expected \(2, 3\)",
        ),
        (
            lambda run: linear(run, f(5, 3), f(2, 3), f(3), f(5, 2)),
            r"linear bias: shape \(3,\), expected \(2,\)",
        ),
        (
            lambda run: linear(run, f(5, 3), f(2, 3), f(2), f(5, 3)),
            r"linear y: shape \(5, 3\), expected \(5, 2\)",
        ),
        (
            lambda run: scale_add(run, f(5, 3), f(2, 5, 7), f(5, 7)),
            r"scale_add gate: shape \(5, 3\), expected \(5, 2\)",
        ),
        (
            lambda run: scale_add(run, f(5, 2), f(2, 5, 7), f(5, 8)),
            r"scale_add m: shape \(5, 8\), expected \(5, 7\)",
        ),
        (lambda run: softmax(run, f(5, 3), f(3, 5)), r"softmax y: shape \(3, 5\), expected \(5, 3\)"),
    ],
)
def test_shapes_that_do_not_fit_quote_both(call: Callable[[Recorder], None], words: str) -> None:
    run = Recorder()
    with pytest.raises(ValueError, match=words):
        call(run)
    assert run.launches == []


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (255, 1), (256, 1), (257, 2), (512, 2), (513, 3)])
def test_blocks_of_an_elementwise_kernel_at_the_edges(count: int, blocks: int) -> None:
    launch = elementwise(KERNEL, count)
    assert (launch.grid, launch.block, launch.shared_bytes) == ((blocks, 1, 1), (256, 1, 1), 0)
    assert dict(launch.defines) == {"THREADS": 256}


@pytest.mark.parametrize("name", ["conv1d", "getmax"])
@pytest.mark.parametrize(("filters", "tiles"), [(1, 1), (127, 1), (128, 1), (129, 2), (1024, 8)])
def test_tiles_of_filters_at_the_edges(name: str, filters: int, tiles: int) -> None:
    launch = importlib.import_module(f"accel_cli.kernels.{name}").geometry(7, filters)
    assert (launch.grid, launch.block) == ((7, tiles, 1), (128, 1, 1))


def test_sizes_beyond_32_bits() -> None:
    """school's convolution output of a batch of 2^17 sentences has more elements than an int holds."""
    elements = 2**17 * 16 * 1024 * 2
    launch = elementwise(KERNEL, elements)
    assert launch.grid[0] * 256 == elements > 2**31
    assert launch.grid[0] < 2**31  # the most blocks that x may have
    for kernel in (variant.kernel for variant in variants()):
        counts = [
            p for p in kernel.parameters if isinstance(p, Scalar) and p.name in ("rows", "tokens", "count")
        ]
        assert all(count.dtype == "int64" for count in counts), kernel.name


def test_every_kernel_is_in_the_catalogue() -> None:
    names = {launch.kernel.name for launch in variants()}
    assert sorted(names) == sorted(path.stem for path in resources.KERNELS.glob("*.cu"))


def test_no_variant_is_in_the_catalogue_twice() -> None:
    catalogue = [(launch.kernel.name, launch.defines) for launch in variants()]
    assert len(set(catalogue)) == len(catalogue)


def test_the_catalogue_holds_what_the_engine_launches() -> None:
    catalogue = {(launch.kernel.name, launch.defines, launch.block) for launch in of_engines()}
    run = Recorder()
    for _, call in CALLS:
        call(run)
    launched = {(launch.kernel.name, launch.defines, launch.block) for launch in run.launches}
    assert launched <= catalogue
    assert {name for name, *_ in launched} == {name for name, *_ in catalogue}


def test_helpers() -> None:
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    check_shape("x", (1, 2), (1, 2))
    with pytest.raises(ValueError, match=r"x: shape \(1, 2\), expected \(2, 1\)"):
        check_shape("x", (1, 2), (2, 1))
