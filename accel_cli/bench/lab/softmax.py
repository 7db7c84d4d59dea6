"""Naive, safe and online softmax over rows of many lengths: how fast, and how wrong with large inputs."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from accel_cli.batches import Floats
from accel_cli.bench.ceiling import copy_rate
from accel_cli.bench.lab.report import Column, LabReport, Row, times
from accel_cli.bench.lab.setting import KERNEL_CLOCK, Setting, values
from accel_cli.bench.measure import short
from accel_cli.bench.operands import poison
from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.errors import AccelError
from accel_cli.kernels.lab_softmax import Method, lab_softmax

LENGTHS = tuple(4 << 2 * step for step in range(8))  # 4 to 65,536
VALUES = 1 << 26  # of the matrix: 256 MiB
CHECKED = 1 << 18  # values that are compared with float64, and at least a row
LEVELS = {"ordinary": 0, "around_100": 100, "around_1000": 1000}  # what is added to normal values
COLUMNS = (
    Column("method", "method"),
    Column("length", "length", ",d"),
    Column("passes", "passes", "d"),
    Column("us", "us", ",.1f"),
    Column("us_min", "fastest", ",.1f"),
    Column("us_max", "slowest", ",.1f"),
    Column("gb_per_s", "GB/s", ",.0f"),
    Column("percent_of_copy", "% of copy", ".1f"),
    *(
        Column(f"error_{level}", f"error, {level.replace('_', ' ')}", ".1e", missing="not finite")
        for level in LEVELS
    ),
    *(
        Column(f"percent_not_finite_{level}", f"% not finite, {level.replace('_', ' ')}", ".1f")
        for level, added in LEVELS.items()
        if added
    ),
)
_TOLERANCE = 1e-4  # of a value by its size; sums of 65,536 in fp32 stay far below it


def measure(setting: Setting) -> LabReport:
    """Check, then time every method at every length, with ordinary values."""
    best = copy_rate()
    flat, y = cupy().asarray(values((VALUES,))), empty(VALUES)
    rows: list[Row] = []
    for length, method in itertools.product(LENGTHS, Method):
        setting.tell(f"{method.name.lower()}, rows of {length}")
        shape = (VALUES // length, length)
        checked = values((max(1, min(shape[0], CHECKED // length)), length))
        errors = _errors(setting, method, checked)
        matrix, result = flat.reshape(shape), y.reshape(shape)
        timing = setting.timed(partial(lab_softmax, setting.run, matrix, result, method))
        rate = 2 * matrix.nbytes / timing.median
        rows.append(
            {
                "method": method.name.lower(),
                "length": length,
                "rows": shape[0],
                "passes": method.passes,
                **times(timing),
                "gb_per_s": short(rate / 1e9),
                "percent_of_copy": short(100 * rate / best),
                "checked": checked.size,
                **errors,
            }
        )
    facts = {"values": VALUES, "copy_gb_per_s": short(best / 1e9)}
    return LabReport("softmax", setting.device, setting.gpu, KERNEL_CLOCK, facts, rows, COLUMNS)


def _errors(setting: Setting, method: Method, normal: Floats) -> Row:
    """The errors at every level; AccelError where a method is wrong that should be right."""
    found: Row = {}
    for level, added in LEVELS.items():
        x = normal + np.float32(added)
        y = empty(*x.shape)
        poison(y)
        lab_softmax(setting.run, cupy().asarray(x), y, method)
        error, lost = difference(cupy().asnumpy(y), x)
        overflows = method == Method.NAIVE and added > 0  # which is what the experiment shows
        if not overflows and (error is None or error > _TOLERANCE):
            cause = f"{lost:g} % not finite" if error is None else f"an error of {error:g}"
            raise AccelError(
                f"not timed, because {method.name.lower()} softmax over {x.shape[1]} values"
                f" {level.replace('_', ' ')} is wrong: {cause}"
            )
        found |= {f"error_{level}": error, f"percent_not_finite_{level}": lost}
    return found


def difference(found: Floats, x: Floats) -> tuple[float | None, float]:
    """The largest error relative to float64, None if a value is not finite; and the percentage of those."""
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True)
    lost = 100 * float(np.count_nonzero(~np.isfinite(found))) / found.size
    return (None if lost else float((abs(found - exact) / exact).max())), short(lost)
