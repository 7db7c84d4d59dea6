"""A copy of a row-major matrix by threads in different orders."""

from __future__ import annotations

from functools import partial

from accel_cli.bench.ceiling import copy_rate
from accel_cli.bench.lab.report import Column, LabReport, Row, times
from accel_cli.bench.lab.setting import KERNEL_CLOCK, Setting, check_same, values
from accel_cli.bench.measure import short
from accel_cli.bench.operands import poison
from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.kernels.lab_copy import ORDERS, Order, lab_copy

SHAPE = (16384, 8192)  # rows and columns: 512 MiB
COLUMNS = (
    Column("order", "order"),
    Column("apart_bytes", "lanes apart, bytes", ",d"),
    Column("sectors", "sectors a load", "d"),
    Column("percent_used", "% of them used", ".1f"),
    Column("us", "us", ",.1f"),
    Column("us_min", "fastest", ",.1f"),
    Column("us_max", "slowest", ",.1f"),
    Column("gb_per_s", "GB/s", ",.0f"),
    Column("percent_of_copy", "% of copy", ".1f"),
)
_SECTOR = 32  # bytes that memory gives at once
_VALUE = 4  # bytes


def measure(setting: Setting) -> LabReport:
    """Check, then time the copy in all ORDERS."""
    best = copy_rate()
    host = values(SHAPE)
    x, y = cupy().asarray(host), empty(*SHAPE)
    rows: list[Row] = []
    for order in ORDERS:
        setting.tell(order.name)
        poison(y)
        lab_copy(setting.run, x, y, order)
        check_same(f"the copy with {order.name}", cupy().asnumpy(y), host)
        timing = setting.timed(partial(lab_copy, setting.run, x, y, order))
        rate, touched = 2 * x.nbytes / timing.median, sectors(order, SHAPE[1])
        rows.append(
            {
                "order": order.name,
                "apart_bytes": _VALUE * order.apart(SHAPE[1]),
                "sectors": touched,
                "percent_used": short(100 * 32 * _VALUE / (touched * _SECTOR)),
                **times(timing),
                "gb_per_s": short(rate / 1e9),
                "percent_of_copy": short(100 * rate / best),
            }
        )
    facts = {"rows_by_columns": f"{SHAPE[0]}x{SHAPE[1]}", "copy_gb_per_s": short(best / 1e9)}
    return LabReport("threads", setting.device, setting.gpu, KERNEL_CLOCK, facts, rows, COLUMNS)


def sectors(order: Order, columns: int) -> int:
    """How many sectors of 32 bytes the lanes of a warp touch with one load."""
    apart = _VALUE * order.apart(columns)
    return len({lane * apart // _SECTOR for lane in range(32)})
