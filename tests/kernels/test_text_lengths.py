import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import Count
from accel_cli.kernels.text_lengths import THREADS, blocks_of, text_lengths
from kernels.text_marked import before, breaks_of, bytes_of, lines_of, marks_of, soup

LIMIT = 9


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"123456789\r\n123456789\r\r\n\r\n123456789\n", b"\r", soup(5000), b"a b\n" * (THREADS - 1)],
)
@pytest.mark.parametrize("spare", [0, 3, -7])
def test_pads_and_cuts_and_says_so(backend: Backend, text: bytes, spare: int) -> None:
    lines = lines_of(text)
    ends = np.flatnonzero(breaks_of(text))
    room = max(len(lines) + spare, 1)
    kept = min(len(lines), room)
    found = np.cumsum(marks_of(text, LIMIT)[0])[ends]
    own = np.diff(found, prepend=0)[:kept]
    padded = np.zeros((2, room), np.int32)
    padded[:, :kept] = ends[:kept], found[:kept]
    counts = np.zeros(len(Count), np.int32)
    counts[Count.LINES] = len(lines)

    offsets, blocks = (backend.array(poisoned(size, "int32")) for size in (room + 1, blocks_of(room)))
    truncated, blank = (backend.array(poisoned(room, "uint8")) for _ in range(2))
    totals = backend.array(counts)
    arrays = (backend.array(bytes_of(text)), *map(backend.array, padded), totals)
    text_lengths(backend.run, *arrays, offsets, blocks, truncated, blank, (2, 3, LIMIT))

    lengths = np.zeros(blocks_of(room) * THREADS, np.int32)
    lengths[:kept] = np.clip(own, 2, 3)
    shares = lengths.reshape(-1, THREADS)
    check_bits(backend.numpy(blocks), shares.sum(axis=1).astype(np.int32))
    within = np.concatenate([before(share) for share in shares])
    check_bits(backend.numpy(offsets)[: kept + 1], within[: kept + 1])
    long = np.array([len(line) > LIMIT for line in lines[:kept]], bool)
    check_bits(backend.numpy(truncated)[:kept], ((own > 3) | long).astype(np.uint8))
    check_bits(backend.numpy(blank)[:kept], (own == 0).astype(np.uint8))
    counts[Count.TRUNCATED], counts[Count.BLANK] = ((own > 3) | long).sum(), (own == 0).sum()
    check_bits(backend.numpy(totals), counts)
