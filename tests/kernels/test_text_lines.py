import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import THREADS, TILE, tiles
from accel_cli.kernels.text_lines import text_lines
from kernels.text_marked import breaks_of, by_tile, bytes_of, soup, words_of


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"a",
        b"a\n\nb",
        b"\n" * TILE,
        b"a" * (TILE - 1),
        b"a" * TILE,
        soup(2000),
        soup(4000)[:TILE],
    ],
)
def test_marks_where_lines_end(backend: Backend, text: bytes) -> None:
    count = tiles(len(text))
    breaks = backend.array(poisoned((count, THREADS), "uint32"))
    lines = backend.array(poisoned(count, "int32"))
    text_lines(backend.run, backend.array(bytes_of(text)), len(text), breaks, lines)
    wanted = breaks_of(text)
    check_bits(backend.numpy(breaks), words_of(wanted))
    check_bits(backend.numpy(lines), by_tile(wanted))


def test_refuses_more_than_there_is(backend: Backend) -> None:
    text, breaks = backend.array(np.zeros(4, np.uint8)), backend.array(poisoned((1, THREADS), "uint32"))
    with pytest.raises(ValueError, match="5 bytes; there are 4"):
        text_lines(backend.run, text, 5, breaks, backend.array(poisoned(1, "int32")))
