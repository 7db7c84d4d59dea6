import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import TILE
from accel_cli.kernels.text_ends import text_ends
from kernels.text_marked import before, breaks_of, by_tile, marks_of, soup, words_of


# Of more lines than there is room for, the first are written.
@pytest.mark.parametrize("spare", [0, 5, -5])
@pytest.mark.parametrize("text", [b"a\n" * 9, soup(6000), b"\n" * TILE + b"a", b"a " * TILE + b"\na'\nb" * 3])
def test_says_where_lines_end_and_how_many_tokens_come_before(
    backend: Backend, text: bytes, spare: int
) -> None:
    breaks, (starts, _) = breaks_of(text), marks_of(text, 64)
    wanted = np.flatnonzero(breaks).astype(np.int32)
    room = max(len(wanted) + spare, 1)
    wanted = wanted[:room]
    counts = [backend.array(before(by_tile(bits))) for bits in (breaks, starts)]
    ends, found = (backend.array(poisoned(room, "int32")) for _ in range(2))
    marks = [backend.array(words_of(bits)) for bits in (breaks, starts)]
    text_ends(backend.run, *marks, *counts, ends, found)
    check_bits(backend.numpy(ends)[: len(wanted)], wanted)
    check_bits(backend.numpy(found)[: len(wanted)], np.cumsum(starts)[wanted].astype(np.int32))
    check_bits(backend.numpy(found)[len(wanted) :], poisoned(room, "int32")[len(wanted) :])
