import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_rows import POINTS, THREADS, text_rows
from kernels.text_marked import before
from kernels.text_pieces import pieces_of


@pytest.mark.parametrize("lines", [1, 7, THREADS - 1, THREADS, THREADS + 1, 3 * THREADS + 77])
@pytest.mark.parametrize("columns", [1, 3])
def test_puts_the_pieces_of_each_row_end_to_end(backend: Backend, lines: int, columns: int) -> None:
    rng = np.random.default_rng(lines)
    at, _ = pieces_of(columns)
    pieces = rng.integers(0, 256, at[-1]).astype(np.uint8)
    labels = rng.integers(0, columns, lines).astype(np.int32)
    points = rng.integers(0, POINTS, lines).astype(np.int32)
    points[:2] = (0, POINTS - 1)[:lines]
    places = np.stack([labels, 2 * columns + points, columns + labels], axis=1)
    rows = [np.concatenate([pieces[at[place] : at[place + 1]] for place in row]) for row in places]
    sizes = np.pad([len(row) for row in rows], (0, -lines % THREADS)).reshape(-1, THREADS).sum(axis=1)
    wanted = np.concatenate([*rows, poisoned(9, "uint8")])

    written = backend.array(poisoned(len(wanted), "uint8"))
    inputs = (labels, points, before(sizes), at, pieces)
    text_rows(backend.run, *(backend.array(values) for values in inputs), written)
    check_bits(backend.numpy(written), wanted)
