"""The vocabulary's hash table, searched in plain Python as docs and kernel say."""

from __future__ import annotations

import time

import numpy as np
import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.text.hash_table import HashTable, hash_table
from accel_cli.text.vocabulary import load_vocabulary


def find(table: HashTable, word: bytes) -> int | None:
    value = 2166136261
    for byte in word:
        value = (value ^ byte) * 16777619 % 2**32
    for probe in range(table.probes):
        tag, identity, begin, size = table.slots[(value + probe) % len(table.slots)].tolist()
        if size == 0:
            return None
        if tag == value and table.words[begin : begin + size].tobytes() == word:
            return int(identity)
    return None


words = st.lists(st.binary(max_size=6), unique=True, max_size=40)


@given(words, words)
def test_finds_what_is_listed_and_nothing_else(listed: list[bytes], others: list[bytes]) -> None:
    vocabulary = {word: place for place, word in enumerate(listed)}
    for slots in (None, 64):
        table = hash_table(vocabulary, slots)
        for word in {*listed, *others} - {b""}:
            assert find(table, word) == vocabulary.get(word)
        assert table.longest == max(map(len, listed), default=0)


def test_a_table_that_is_full() -> None:
    vocabulary = {b"%d" % number: number for number in range(64)}
    table = hash_table(vocabulary, 64)
    assert (table.slots[:, 3] > 0).all()
    assert all(find(table, word) == number for word, number in vocabulary.items())
    assert find(table, b"64") is None
    assert table.probes > 4


def test_an_empty_vocabulary_and_an_empty_word() -> None:
    for vocabulary in ({}, {b"": 5}):
        table = hash_table(vocabulary)
        assert (table.probes, table.longest, table.slots.any()) == (0, 0, False)
        assert len(table.words) == 1  # no device has arrays of nothing


def test_the_shipped_vocabulary_is_quick_to_make_and_to_search() -> None:
    vocabulary = load_vocabulary(ROOT / "weights/sentiment/vocabulary.txt", 30_000)
    begin = time.process_time()
    table = hash_table(vocabulary)
    assert time.process_time() - begin < 2
    assert len(table.slots) == 1 << 16
    assert table.probes < 40
    assert np.count_nonzero(table.slots[:, 3]) == len(vocabulary)
    assert all(find(table, word) == number for word, number in list(vocabulary.items())[::97])


@pytest.mark.parametrize("slots", [3, 1])
def test_refuses_a_wrong_number_of_slots(slots: int) -> None:
    with pytest.raises(ValueError, match=f"{slots} slots for 2 words"):
        hash_table({b"a": 0, b"b": 1}, slots)
