import numpy as np
import pytest
from host_cuda.backends import Backend

from accel_cli.kernels.text_common import TILE, Count
from accel_cli.kernels.text_invalid import text_invalid
from kernels.text_marked import all_texts, bytes_of, soup

LEADS = b"\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
TAILS = b"a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0"


def single(values: bytes) -> list[bytes]:
    return [bytes([value]) for value in values]


# Python's own decoder says what is invalid; a sequence may reach from one tile into the next.
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"plain",
        b"\xe2\x80",
        b"\xf0\x9f\x98\x80" * TILE,
        b"a" + b"\xf0\x9f\x98\x80" * TILE,
        all_texts(single(LEADS + b"\x80a"), 2),
        b"".join(lead + tail for lead in single(LEADS) for tail in all_texts(single(TAILS), 3).split(b"\n")),
        soup(9000),
    ],
)
def test_counts_what_is_not_utf8(backend: Backend, text: bytes) -> None:
    counts = backend.array(np.full(len(Count), 7, np.int32))
    text_invalid(backend.run, backend.array(bytes_of(text)), len(text), counts)
    expected = np.full(len(Count), 7)
    expected[Count.INVALID] += len(text) - len(text.decode("utf-8", "ignore").encode())
    assert backend.numpy(counts).tolist() == expected.tolist()
