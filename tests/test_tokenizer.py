"""The tokenizer against a second implementation, written byte by byte from docs/tokenizer.md."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.text.tokenizer import BYTES_PER_TOKEN, Encoded, Tokenizer, tokens
from accel_cli.text.vocabulary import PAD, SPECIAL, UNKNOWN

SUFFIXES = (b"'s", b"'re", b"'ve", b"'ll", b"'d", b"'m")
SEPARATOR, WORD, APOSTROPHE, OTHER = range(4)


def kind(byte: int) -> int:
    if byte <= 0x20 or byte == 0x7F:
        return SEPARATOR
    if byte >= 0x80 or ord("a") <= byte <= ord("z") or ord("0") <= byte <= ord("9"):
        return WORD
    return APOSTROPHE if byte == ord("'") else OTHER


def tail(text: bytes, at: int, count: int) -> bool:
    """Whether `count` bytes of 80-BF stand at `at`."""
    return len(text) >= at + count and all(0x80 <= byte <= 0xBF for byte in text[at : at + count])


def symbol_at(text: bytes, at: int) -> int:
    """The length of the symbol (or curly apostrophe) that begins at `at`, or 0."""
    lead = text[at]
    if lead == 0xE2 and tail(text, at + 1, 2):
        return 3
    if 0xF0 <= lead <= 0xF4 and tail(text, at + 1, 3):
        second = text[at + 1]
        if not (lead == 0xF0 and second < 0x90) and not (lead == 0xF4 and second > 0x8F):
            return 4
    return 0


def read(text: bytes) -> list[bytes]:
    """Step 2: single bytes, or a symbol's bytes together, with separators around those."""
    items, at = [], 0
    while at < len(text):
        size = symbol_at(text, at)
        if size and text[at : at + size] == b"\xe2\x80\x99":
            items.append(b"'")
        elif size:
            items += [b" ", text[at : at + size], b" "]
        else:
            size = 1
            byte = text[at]
            items.append(bytes([byte + 32 if ord("A") <= byte <= ord("Z") else byte]))
        at += size
    return items


def is_word(items: Sequence[bytes], at: int) -> bool:
    return at < len(items) and len(items[at]) == 1 and kind(items[at][0]) == WORD


def spells(items: Sequence[bytes], at: int, what: bytes) -> bool:
    """Whether `what` stands at `at` and no word byte follows it."""
    end = at + len(what)
    return [bytes([byte]) for byte in what] == list(items[at:end]) and not is_word(items, end)


def split_not(items: Sequence[bytes]) -> list[bytes]:
    """Step 3."""
    out: list[bytes] = []
    for at, item in enumerate(items):
        if spells(items, at, b"n't"):
            out.append(b" ")
        out.append(item)
    return out


def suffix_at(items: Sequence[bytes], at: int) -> bytes | None:
    return next((suffix for suffix in SUFFIXES if spells(items, at, suffix)), None)


def scan(items: Sequence[bytes]) -> list[bytes]:
    """Step 4."""
    found, at = [], 0
    while at < len(items):
        if len(items[at]) > 1:
            found.append(items[at])
        elif suffix := suffix_at(items, at):
            found.append(suffix)
            at += len(suffix) - 1
        elif is_word(items, at):
            begin = at
            while is_word(items, at) or (
                at < len(items) and items[at] == b"'" and not suffix_at(items, at) and is_word(items, at + 1)
            ):
                at += 1
            found.append(b"".join(items[begin:at]))
            continue
        elif kind(items[at][0]) != SEPARATOR:
            found.append(items[at])
        at += 1
    return found


def reference(line: bytes, max_tokens: int = 1 << 20) -> list[bytes]:
    return scan(split_not(read(line[: 64 * max_tokens])))


# Pieces that make the odd cases likely.
pieces = st.lists(
    st.sampled_from(
        [bytes([byte]) for byte in b"'nt'sdremvl aN5T.\x00\x7f\t\r\n\xe2\x80\x99\xbf\xf0\x9f\x98\xf4\x8f\xc3"]
        + [b"n't", b"'s", b"'ll", b"\xe2\x80\x99", b"\xe2\x80\x94", b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80"]
    ),
    max_size=24,
).map(b"".join)
texts = st.one_of(
    st.binary(max_size=60), pieces, st.text(max_size=40).map(lambda t: t.encode("utf-8", "ignore"))
)


@settings(max_examples=600)
@given(texts)
def test_equals_the_reference(text: bytes) -> None:
    line = text.replace(b"\n", b" ")
    assert tokens(line) == reference(line)


def test_every_single_byte_and_every_pair_around_a_letter() -> None:
    every = [bytes([byte]) for byte in range(256) if byte != 10]
    for line in [*every, *(b"a%bb" % byte for byte in every), *(b"a'%b" % byte for byte in every)]:
        assert tokens(line) == reference(line), line


def examples() -> list[tuple[str, list[str]]]:
    """The table of docs/tokenizer.md."""
    text = (ROOT / "docs" / "tokenizer.md").read_text("utf-8").partition("## Examples")[2]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `")]
    return [(re.findall("`(.*)`", line)[0], re.findall("`(.+?)`", split)) for line, split in rows]


@pytest.mark.parametrize(("line", "expected"), examples())
def test_the_examples_of_the_documentation(line: str, expected: list[str]) -> None:
    assert [token.decode() for token in tokens(line.encode())] == expected
    assert [token.decode() for token in reference(line.encode())] == expected


def test_the_documentation_has_examples() -> None:
    assert len(examples()) > 20


def test_case_is_that_of_ascii_alone() -> None:
    assert tokens("ÀÉ İI".encode()) == ["ÀÉ".encode(), "İi".encode()]


def test_the_table_of_valid_four_byte_sequences() -> None:
    """Exactly those that Python's own decoder takes."""
    for lead in range(0xF0, 0x100):
        for second in (0x00, 0x7F, 0x80, 0x8F, 0x90, 0xBF, 0xC0):
            text = b"a" + bytes([lead, second, 0x80, 0x80]) + b"b"
            try:
                text.decode()
                valid = lead > 0x7F and second >= 0x80
            except UnicodeDecodeError:
                valid = False
            assert (tokens(text) == [b"a", text[1:5], b"b"]) == valid, text


VOCABULARY = {
    word: i for i, word in enumerate([*SPECIAL, b"a", b"n't", b"'s", b"'", b"it", b"\xe2\x80\x94", b"5"])
}


def tokenizer(least: int, most: int) -> Tokenizer:
    return Tokenizer(VOCABULARY, least, most)


def sentences(encoded: Encoded) -> list[list[int]]:
    batch = encoded.batch
    return [batch.ids[batch.offsets[i] : batch.offsets[i + 1]].tolist() for i in range(len(batch))]


@settings(max_examples=100)
@given(st.lists(texts, max_size=6), st.integers(1, 5), st.integers(0, 6))
def test_encode_pads_cuts_and_marks_each_line_by_itself(lines: list[bytes], least: int, more: int) -> None:
    most = least + more
    encoded = tokenizer(least, most).encode(lines)
    assert len(encoded.batch) == len(lines) == len(encoded.truncated) == len(encoded.blank)
    assert encoded.batch.ids.dtype == encoded.batch.offsets.dtype == np.int32
    for i, line in enumerate(lines):
        found = reference(line, most)
        ids = [VOCABULARY.get(token, UNKNOWN) for token in found[:most]]
        assert sentences(encoded)[i] == ids + [PAD] * (least - len(ids))
        assert encoded.blank[i] == (not found)
        assert encoded.truncated[i] == (len(found) > most or len(line) > 64 * most)
        assert least <= encoded.batch.lengths[i] <= most


@settings(max_examples=100)
@given(st.lists(texts, min_size=1, max_size=8))
def test_a_line_does_not_see_its_neighbours(lines: list[bytes]) -> None:
    alone = [sentences(tokenizer(3, 9).encode([line]))[0] for line in lines]
    assert sentences(tokenizer(3, 9).encode(lines)) == alone


def test_no_lines() -> None:
    encoded = tokenizer(3, 9).encode([])
    assert (len(encoded.batch), encoded.batch.ids.size, encoded.batch.offsets.tolist()) == (0, 0, [0])


def test_a_fixed_length() -> None:
    assert sentences(tokenizer(4, 4).encode([b"", b"a", b"a a a a a"])) == [
        [PAD] * 4,
        [2, PAD, PAD, PAD],
        [2] * 4,
    ]


def test_only_the_first_bytes_of_a_line_are_looked_at() -> None:
    most = 4
    edge = BYTES_PER_TOKEN * most
    assert edge == 256
    encode = tokenizer(1, most).encode
    just = encode([b" " * (edge - 1) + b"a"])
    assert (sentences(just), just.truncated.tolist(), just.blank.tolist()) == ([[2]], [False], [False])
    beyond = encode([b" " * edge + b"a"])
    assert (sentences(beyond), beyond.truncated.tolist(), beyond.blank.tolist()) == ([[PAD]], [True], [True])
    # a sequence cut in the middle is no symbol: its bytes are word bytes
    assert sentences(encode([b" " * (edge - 2) + b"\xe2\x80\x94"])) == [[UNKNOWN]]
    assert sentences(encode([b" " * (edge - 3) + b"\xe2\x80\x94"])) == [[VOCABULARY[b"\xe2\x80\x94"]]]


def test_special_words_cannot_be_spelt() -> None:
    assert tokens(b"<unk> <pad>") == [b"<", b"unk", b">", b"<", b"pad", b">"]


@pytest.mark.parametrize(
    "unit", [b"n't", b"'", b"a'", b"'s", b"\xe2\x80\x99", b"\xf0\x9f\x98\x80", b"x", b" "]
)
def test_long_repetitions_take_linear_time(unit: bytes) -> None:
    """A quadratic pattern would hang here."""
    assert tokens(unit * 2_000) == reference(unit * 2_000)
    assert len(tokens(unit * 200_000)) <= 400_000
