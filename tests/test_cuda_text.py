"""The tokenizer on a device against the CPU's, of lines as `accel run` reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import fake_cupy
import numpy as np
import pytest
from conftest import ROOT
from host_cuda.checks import check_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.text_marked import lines_of
from test_tokenizer import pieces

from accel_cli.cuda.device import choose, cupy, facts, missing
from accel_cli.cuda.launcher import Launcher
from accel_cli.engines.cuda_text import DeviceTokenizer, words_of
from accel_cli.kernels.base import Runner
from accel_cli.kernels.text_common import MOST_BYTES, TILE, Count
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import SPECIAL, Vocabulary, load_vocabulary

pytestmark = pytest.mark.extras  # minutes of compiling

# Some of these cannot be spelt: texts are read, in lower case and with ', and words are not.
WORDS = [
    *b"a it do n't 's ' 've . rock'n'roll it's'5 5t 5 t n s aa n'ta A don\xe2\x80\x99t caf\xc3\xa9".split(),
    *(b"\xe2\x80\x94", b"\xf0\x9f\x98\x80", b"\xe2\x80", b"\x80", b"\x99", b"\xff\xfe", b"", b"x" * 70),
    *(b"a" * size for size in (63, 64, 65, 256)),
]
VOCABULARY: Vocabulary = {word: place for place, word in enumerate([*SPECIAL, *WORDS])}


@dataclass(frozen=True)
class Place:
    """Where the kernels run, and a CuPy for it."""

    cupy: Any
    run: Runner

    def array(self, text: bytes) -> Any:
        return self.cupy.asarray(np.frombuffer(text, np.uint8))


@pytest.fixture(scope="module", params=["fake", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "fake":
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "cupy", fake_cupy.module())
            yield Place(sys.modules["cupy"], fake_cupy.Launcher(None))
        return
    if reason := missing():
        pytest.skip(f"no CUDA device: {reason}")
    yield Place(cupy(), Launcher(facts(int(choose("cuda").partition(":")[2]))))


def check(
    place: Place,
    text: bytes,
    least: int,
    most: int,
    vocabulary: Vocabulary = VOCABULARY,
    room: int | None = None,
) -> None:
    lines = lines_of(text)
    room = room or len(text) + 1
    tokenize = DeviceTokenizer(words_of(vocabulary), least, most, place.run, size=len(text) + 1, lines=room)
    found = tokenize(place.array(text + b"a"), len(text))
    ids, offsets, truncated, blank, counts = (
        place.cupy.asnumpy(array)
        for array in (found.ids, found.offsets, found.truncated, found.blank, found.counts)
    )
    assert counts[Count.LINES] == len(lines)
    lines = lines[:room]
    wanted = Tokenizer(vocabulary, least, most).encode(lines)
    assert counts[Count.TOKENS] == wanted.batch.offsets[-1]
    check_bits(offsets[: len(lines) + 1], wanted.batch.offsets)
    check_bits(ids[: counts[Count.TOKENS]], wanted.batch.ids)
    check_bits(truncated[: len(lines)], wanted.truncated.astype(np.uint8))
    check_bits(blank[: len(lines)], wanted.blank.astype(np.uint8))
    assert counts[Count.TRUNCATED] == np.count_nonzero(wanted.truncated)
    assert counts[Count.BLANK] == np.count_nonzero(wanted.blank)
    if room > len(lines):
        assert counts[Count.INVALID] == sum(len(t) - len(t.decode("utf-8", "ignore").encode()) for t in lines)


# Many short lines at once: a launch costs far more than what it does here.
soup = st.lists(st.one_of(pieces, st.binary(max_size=40)), max_size=60).map(b"\n".join)


@settings(max_examples=8)
@given(soup, st.integers(1, 4), st.integers(0, 6))
def test_any_bytes(place: Place, text: bytes, least: int, more: int) -> None:
    check(place, text, least, least + more)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"\r\n",
        b"\r",
        b"a",
        b"a\n",
        b"a\r\r\n\n\nb",
        b"\0\0\n\0",
        b"It\xe2\x80\x99s\r\ncaf\xc3\xa9 don\xe2\x80\x99t ROCK'n'Roll\xf0\x9f\x98\x80 it's'5 \xff\xfe",
        b"\xed\xa0\x80 \xc0\xaf \xe0\x80\xaf \xf4\x90\x80\x80 \xf0\x8f\xbf\xbf \xe2\x80\n\x80\xc3",
    ],
)
def test_small_texts(place: Place, text: bytes) -> None:
    check(place, text, 2, 5)


def shifted(units: Sequence[bytes], shifts: Sequence[int]) -> bytes:
    """A text in which each border of a tile falls into a unit, each time a byte further."""
    text = bytearray()
    for border, shift in enumerate(shifts, 1):
        unit = units[border % len(units)]
        begin = border * TILE - shift % len(unit)
        while len(text) < begin - 40:
            text += b"a'nt. don't\n"[: begin - len(text)]
        text += b" " * (begin - len(text)) + unit
    return bytes(text)


UNITS = [
    b"x\xe2\x80\x99ve\xe2\x80\x99n\xe2\x80\x99t\xf0\x9f\x98\x80",
    b" 's'foo n't'foo \xe2\x80\x94\xe2\x80\x99\xf0\x9f\x98\x80a\r\n",
    b"a'dn\xe2\x80\x99t\xc3\xa9 it's5 it's\r\n",
]


def test_tokens_across_the_borders_of_tiles(place: Place) -> None:
    check(place, shifted(UNITS, range(14)), 3, 40)


@pytest.mark.parametrize("beyond", range(-2, 3))
def test_a_text_that_fills_its_tiles(place: Place, beyond: int) -> None:
    size = TILE + beyond
    check(place, (b"it's a text.\n" * TILE)[:size], 3, 9)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_lines_of_about_as_many_bytes_as_are_looked_at(place: Place, end: bytes) -> None:
    most = 2
    limit = 64 * most
    lines = [b" " * (limit + d - len(piece)) + piece for d in range(-1, 4) for piece in (b"a", *UNITS)]
    lines += [b"a" * (limit + d) for d in (-1, 0, 1)]
    check(place, b"\r\n".join(lines) + end, 1, most)


@pytest.mark.parametrize("most", [1, 70])
def test_a_giant_line_between_others(place: Place, most: int) -> None:
    giant = b"a" + b" x\xe2\x80\x99s" * (4 * TILE // 6) + b" good"
    check(place, b"it a\n" + giant + b"\nit's\n", 1, most)


def test_a_word_that_never_ends(place: Place) -> None:
    words = b"it " + b"a" * 2 * TILE + b"\n" + b"a" * 64 + b" " + b"x" * 70 + b"\n" + b"\xe2\x80\x99a" * 99
    check(place, words, 1, 200)


def test_the_shipped_sentences_and_words(place: Place) -> None:
    vocabulary = load_vocabulary(ROOT / "weights/sentiment/vocabulary.txt", 30_000)
    check(place, (ROOT / "weights/sentences.txt").read_bytes()[-12_000:], 9, 20, vocabulary)


@pytest.mark.parametrize("place", [pytest.param("cuda", marks=pytest.mark.gpu)], indirect=True)
def test_a_text_of_thousands_of_tiles(place: Place) -> None:
    rng = np.random.default_rng(0)
    units = np.array([*WORDS, b"\n", b" ", b"\xe2\x80\x99", b"\xe2\x80\x99s ", b"\r\n", *UNITS], object)
    check(place, b"".join(rng.choice(units, 3_000_000)), 9, 20)


def test_a_vocabulary_of_nothing(place: Place) -> None:
    check(place, b"it's a\nword", 1, 9, {})


def test_words_that_share_their_slots(place: Place) -> None:
    vocabulary = {b"w%d" % number: number for number in range(2, 3000)}
    text = b" ".join(b"W%d" % number for number in range(0, 3100, 3))
    check(place, text, 1, 5000, vocabulary)


def test_more_lines_than_there_is_room_for(place: Place) -> None:
    check(place, b"it's\n\na b c\nd\n" * 300, 2, 3, room=700)


def test_a_chunk_after_a_larger_one(place: Place) -> None:
    tokenize = DeviceTokenizer(words_of(VOCABULARY), 1, 4, place.run, size=64, lines=64)
    for text, ids in ((b"a\na\n\xff it", [2, 2, 0, 3]), (b"it", [3])):
        found = tokenize(place.array(text), len(text))
        counts = place.cupy.asnumpy(found.counts)
        assert place.cupy.asnumpy(found.ids)[: counts[Count.TOKENS]].tolist() == ids
        assert counts[Count.INVALID] == text.count(b"\xff")


def test_chunks_that_are_refused(place: Place) -> None:
    for size, lines in ((MOST_BYTES, 1), (0, 1), (1, 0), (1 << 30, 1 << 30)):
        with pytest.raises(ValueError, match="tokens, and must be 1 to"):
            DeviceTokenizer(words_of(VOCABULARY), 2, 4, place.run, size=size, lines=lines)
    tokenize = DeviceTokenizer(words_of(VOCABULARY), 1, 4, place.run, size=8, lines=8)
    with pytest.raises(ValueError, match="9 bytes; there is room for 8"):
        tokenize(place.array(bytes(9)), 9)
    with pytest.raises(ValueError, match="text_invalid: 8 bytes; there are 4"):
        tokenize(place.array(bytes(4)), 8)
