import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import THREADS, TILE, tiles
from accel_cli.kernels.text_marks import text_marks
from kernels.text_marked import BYTES, all_texts, breaks_of, by_tile, bytes_of, marks_of, soup, words_of

pytestmark = pytest.mark.extras  # minutes of running

ALL = 1 << 20


def check(backend: Backend, text: bytes, limit: int) -> None:
    count = tiles(len(text))
    starts, stops = (backend.array(poisoned((count, THREADS), "uint32")) for _ in range(2))
    tokens = backend.array(poisoned(count, "int32"))
    breaks = backend.array(words_of(breaks_of(text)))
    text_marks(backend.run, backend.array(bytes_of(text)), len(text), breaks, starts, stops, tokens, limit)
    wanted = marks_of(text, limit)
    check_bits(backend.numpy(starts), words_of(wanted[0]))
    check_bits(backend.numpy(stops), words_of(wanted[1]))
    check_bits(backend.numpy(tokens), by_tile(wanted[0]))


@pytest.mark.parametrize(
    "text", [b"", b"a", b"it's\ncan't've\r\n", soup(5000), soup(4000, 1)[:TILE], soup(4000, 2)[: TILE - 1]]
)
def test_marks_starts_and_stops(backend: Backend, text: bytes) -> None:
    check(backend, text, ALL)


def test_every_byte_and_every_text_of_two(backend: Backend) -> None:
    every = b"".join(b"a%b'%b " % (bytes([byte]), bytes([byte])) for byte in range(256))
    check(backend, every + all_texts(BYTES, 2), ALL)


@pytest.mark.parametrize("limit", [1, 31, 32, 64, 65, TILE, TILE + 33])
def test_looks_at_the_first_bytes_of_a_line(backend: Backend, limit: int) -> None:
    long = soup(3000, limit).replace(b"\n", b"'")
    check(backend, soup(300, limit) + b"\n" + long + b"\n" + soup(100), limit)


def test_refuses_to_look_at_nothing(backend: Backend) -> None:
    with pytest.raises(ValueError, match="look at 1 at least"):
        check(backend, b"a", 0)
