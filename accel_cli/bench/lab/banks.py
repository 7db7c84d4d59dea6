"""A transpose through shared memory: the banks of three layouts of the tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial

import numpy as np

from accel_cli.bench.ceiling import copy_rate
from accel_cli.bench.lab.report import Column, LabReport, Row, times
from accel_cli.bench.lab.setting import KERNEL_CLOCK, Setting, check_same, values
from accel_cli.bench.measure import Timing, short
from accel_cli.bench.operands import poison
from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.kernels.lab_transpose import TILE, Layout, lab_transpose

SHAPE = (8192, 8192)  # rows and columns: 256 MiB
ROUNDS = (1, 33)  # a plain transpose, and one that shared memory alone bounds
COLUMNS = (
    Column("layout", "layout"),
    Column("rounds", "rounds", "d"),
    Column("write_ways", "ways to write", "d"),
    Column("read_ways", "to read", "d"),
    Column("us", "us", ",.1f"),
    Column("us_min", "fastest", ",.1f"),
    Column("us_max", "slowest", ",.1f"),
    Column("gb_per_s", "GB/s", ",.0f"),
    Column("percent_of_copy", "% of copy", ".1f"),
    Column("x_plain", "x plain", ".2f"),
    Column("predicted_x_plain", "predicted", ".2f"),
)
_BANKS = 32


def measure(setting: Setting) -> LabReport:
    """Check, then time the transpose in all layouts, once and again and again."""
    best = copy_rate()
    host = values(SHAPE)
    turned = np.ascontiguousarray(host.T)
    x, y = cupy().asarray(host), empty(*turned.shape)
    rows: list[Row] = []
    for rounds in ROUNDS:
        timings: dict[Layout, Timing] = {}
        for layout in Layout:
            setting.tell(f"{layout.name.lower()}, {rounds} rounds")
            poison(y)
            lab_transpose(setting.run, x, y, layout, rounds)
            check_same(f"the {layout.name.lower()} transpose", cupy().asnumpy(y), turned)
            timings[layout] = setting.timed(partial(lab_transpose, setting.run, x, y, layout, rounds))
        rows += [_row(layout, rounds, timings, 2 * x.nbytes, best) for layout in Layout]
    facts = {"rows_by_columns": f"{SHAPE[0]}x{SHAPE[1]}", "copy_gb_per_s": short(best / 1e9)}
    return LabReport("banks", setting.device, setting.gpu, KERNEL_CLOCK, facts, rows, COLUMNS)


def write_ways(layout: Layout) -> int:
    """Turns that a warp takes to write a row of the tile."""
    return max(_ways(layout.place(row, lane) for lane in range(TILE)) for row in range(TILE))


def read_ways(layout: Layout) -> int:
    """Turns that a warp takes to read a column of the tile."""
    return max(_ways(layout.place(lane, column) for lane in range(TILE)) for column in range(TILE))


def _ways(places: Iterable[int]) -> int:
    """The most places in one bank: a bank gives one value in a turn."""
    return max(Counter(place % _BANKS for place in places).values())


def _row(layout: Layout, rounds: int, timings: dict[Layout, Timing], moved: int, best: float) -> Row:
    timing = timings[layout]
    turns = {each: write_ways(each) + read_ways(each) for each in (layout, Layout.PLAIN)}
    return {
        "layout": layout.name.lower(),
        "rounds": rounds,
        "write_ways": write_ways(layout),
        "read_ways": read_ways(layout),
        **times(timing),
        "gb_per_s": short(moved / timing.median / 1e9),
        "percent_of_copy": short(100 * moved / timing.median / best),
        "x_plain": short(timings[Layout.PLAIN].median / timing.median),
        # with one round the device's memory takes its part of the time, which turns do not tell
        "predicted_x_plain": short(turns[Layout.PLAIN] / turns[layout]) if rounds > 1 else None,
    }
