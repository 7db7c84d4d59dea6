import numpy as np
import pytest
from host_cuda.backends import Backend
from host_cuda.checks import check_bits, poisoned

from accel_cli.kernels.text_common import THREADS, TILE
from accel_cli.kernels.text_lookup import Tokens, Words, text_lookup
from accel_cli.text.hash_table import hash_table
from accel_cli.text.tokenizer import tokens
from kernels.ragged import offsets_of
from kernels.text_marked import before, breaks_of, by_tile, bytes_of, lines_of, marks_of, soup, words_of

LIMIT = 256
WORDS = [
    b"a",
    b"n't",
    b"'s",
    b"'",
    b"it",
    b"\xe2\x80\x94",
    b"\xf0\x9f\x98\x80",
    b"\xc3",
    b"n" * 70,
    b"a1",
    b"'ve",
]
WORDS += [b"'".join([b"a"] * 60)]
TEXTS = [
    b"It's a\nIt\xe2\x80\x99s a \xe2\x80\x94 " + b"N" * 70 + b"\n\n" + b"a " * TILE + b"\nA1",
    b"".join(b" " * shift + b"\xe2\x80\x99".join([b"A"] * 60) + b"\n" for shift in range(0, 16, 5)),
    soup(6000),
    b"".join(b" " * shift + b"n" * size + b"\n" for size in (69, 70, 71, 300) for shift in (1, 9)),
]


def check(backend: Backend, text: bytes, vocabulary: dict[bytes, int], most: int, spare: int = 0) -> None:
    table = hash_table(vocabulary, 16)  # so few slots that words are in each other's way
    found = [tokens(line[:LIMIT]) for line in lines_of(text)]
    breaks, (starts, stops) = breaks_of(text), marks_of(text, LIMIT)
    ends = np.flatnonzero(breaks)
    room = max(len(found) + spare, 1)
    offsets = np.zeros(room + 1, np.int32)
    kept = found[:room]
    offsets[: len(kept) + 1] = offsets_of([min(len(words), most) for words in kept])
    upto = np.zeros(room, np.int32)
    upto[: len(kept)] = np.cumsum(starts)[ends[:room]]

    ids = backend.array(poisoned(int(offsets[len(kept)]) + 1, "int32"))
    place = Tokens(
        *(backend.array(words_of(bits)) for bits in (breaks, starts, stops)),
        *(backend.array(before(by_tile(bits))) for bits in (breaks, starts)),
    )
    words = Words(backend.array(table.slots), backend.array(table.words), table.probes, table.longest)
    inputs = (backend.array(upto), backend.array(offsets))
    text_lookup(backend.run, backend.array(bytes_of(text)), place, *inputs, words, ids)
    wanted = [vocabulary.get(word, 0) for line in kept for word in line[:most]]
    check_bits(backend.numpy(ids), np.array([*wanted, poisoned(1, "int32")[0]], np.int32))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("most", [1, 5, 1000])
def test_looks_words_up(backend: Backend, text: bytes, most: int) -> None:
    check(backend, text, {word: place + 2 for place, word in enumerate(WORDS)}, most)


def test_no_words(backend: Backend) -> None:
    check(backend, TEXTS[0], {}, 9)


def test_a_full_table(backend: Backend) -> None:
    check(backend, b"0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 x", {b"%d" % i: i for i in range(16)}, 99)


def test_more_lines_than_there_is_room_for(backend: Backend) -> None:
    check(backend, TEXTS[1], {word: place + 2 for place, word in enumerate(WORDS)}, 4, spare=-9)


def test_words_of_one_hash(backend: Backend) -> None:
    check(backend, b"macallums declinate", {b"declinate": 2}, 9)


def test_refuses_a_number_of_slots_that_is_no_power_of_two(backend: Backend) -> None:
    table = Words(np.zeros((3, 4), np.uint32), np.zeros(1, np.uint8), 1, 1)
    marks, zeros = np.zeros((1, THREADS), np.uint32), np.zeros(2, np.int32)
    place = Tokens(marks, marks, marks, zeros[:1], zeros[:1])
    text = np.zeros(1, np.uint8)
    with pytest.raises(ValueError, match="3 slots are no power of two"):
        text_lookup(backend.run, text, place, zeros[:1], zeros, table, zeros)
