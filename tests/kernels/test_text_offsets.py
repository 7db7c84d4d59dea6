import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_lengths import THREADS, blocks_of
from accel_cli.kernels.text_offsets import text_offsets
from kernels.ragged import offsets_of
from kernels.text_marked import before


@pytest.mark.parametrize("lines", [0, 1, 7, THREADS - 1, THREADS, THREADS + 1, 3 * THREADS + 5])
@pytest.mark.parametrize("spare", [0, 9, -2])
def test_puts_sentences_end_to_end_and_pads_them(backend: Backend, lines: int, spare: int) -> None:
    least, room = 3, max(lines + spare, 1)
    kept = min(lines, room)
    own = np.random.default_rng(lines).integers(0, 6, room)
    lengths = np.zeros(blocks_of(room) * THREADS, np.int32)
    lengths[:kept] = np.maximum(own[:kept], least)
    shares = lengths.reshape(-1, THREADS)
    within = np.concatenate([before(share) for share in shares])[: room + 1]
    counts = np.full(len(Count), lines, np.int32)
    wanted = offsets_of(lengths[:kept].tolist())

    offsets, ids = backend.array(within), backend.array(poisoned(int(wanted[-1]) + 1, "int32"))
    blocks = before(shares.sum(axis=1))
    inputs = [backend.array(values) for values in (np.cumsum(own).astype(np.int32), counts, blocks)]
    text_offsets(backend.run, *inputs, offsets, ids, least, 1)
    check_bits(backend.numpy(offsets)[: kept + 1], wanted)
    filled = poisoned(int(wanted[-1]) + 1, "int32")
    for line in range(kept):
        filled[wanted[line] + own[line] : wanted[line + 1]] = 1
    check_bits(backend.numpy(ids), filled)
