"""The ceilings of a roofline that one kernel each measures: fma in registers, and reads of shared memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from accel_cli.bench.lab.setting import Setting, check_same
from accel_cli.bench.operands import poison
from accel_cli.cuda.buffers import empty
from accel_cli.cuda.device import cupy
from accel_cli.kernels import lab_fma, lab_shared

FMA_ROUNDS, SHARED_ROUNDS = 16384, 1024
_BLOCKS = 8  # of a processor: all the threads that it holds


def fma_rate(setting: Setting) -> float:
    """Operations a second; an fma is two."""
    count = _BLOCKS * setting.gpu.processors * lab_fma.THREADS
    x = np.arange(count, dtype=np.float32) % 1024
    y = empty(count)
    # 1 - v, and 1 - v again: an even number of rounds gives whole numbers back as they were
    fma = partial(lab_fma.lab_fma, setting.run, cupy().asarray(x), y, -1.0, 1.0, FMA_ROUNDS)
    poison(y)
    fma()
    expected = lab_fma.CHAINS * x + sum(range(lab_fma.CHAINS))
    check_same("the kernel of fma", cupy().asnumpy(y), expected.astype(np.float32))
    return 2 * lab_fma.CHAINS * FMA_ROUNDS * count / setting.timed(fma).median


def shared_rate(setting: Setting) -> float:
    """Bytes a second that threads get from shared memory, four each at once and all banks busy."""
    count = _BLOCKS * setting.gpu.processors * lab_shared.THREADS
    table = (np.arange(lab_shared.READS * 32, dtype=np.float32) % 3).reshape(lab_shared.READS, 32)
    y = empty(count)
    read = partial(lab_shared.lab_shared, setting.run, cupy().asarray(table), y, SHARED_ROUNDS)
    poison(y)
    read()
    expected = SHARED_ROUNDS * np.resize(table.sum(axis=0), count)  # whole numbers below 2^24
    check_same("the kernel that reads shared memory", cupy().asnumpy(y), expected.astype(np.float32))
    return 4 * lab_shared.READS * SHARED_ROUNDS * count / setting.timed(read).median
