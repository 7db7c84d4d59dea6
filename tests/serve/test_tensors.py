"""BYTES tensors: exact, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.serve.refusals import Refusal
from accel_cli.serve.tensors import joined_bytes, split_bytes
from serve.refused import refused_with

TEXTS = st.lists(st.binary(max_size=20), max_size=20)


@given(TEXTS)
def test_there_and_back(texts: list[bytes]) -> None:
    assert split_bytes(joined_bytes(texts), len(texts)) == texts


@given(TEXTS, st.data())
def test_what_is_missing_or_too_much_is_refused(texts: list[bytes], data: st.DataObject) -> None:
    tensor = joined_bytes(texts)
    wrong = data.draw(st.integers(0, 30).filter(lambda count: count != len(texts)))
    with pytest.raises(Refusal):
        split_bytes(tensor, wrong)
    with pytest.raises(Refusal, match="bytes after its"):
        split_bytes(tensor + b"x", len(texts))
    if tensor:
        with pytest.raises(Refusal, match="ends within element"):
            split_bytes(tensor[: data.draw(st.integers(0, len(tensor) - 1))], len(texts))


@given(st.binary(max_size=100), st.integers(0, 50))
def test_any_bytes_are_read_or_refused(tensor: bytes, count: int) -> None:
    if refused_with(lambda: split_bytes(tensor, count)) is None:
        assert joined_bytes(split_bytes(tensor, count)) == tensor


def test_a_length_beyond_the_end() -> None:
    with pytest.raises(Refusal, match="the binary tensor ends within element 1 of 2"):
        split_bytes(b"\1\0\0\0a\xff\xff\xff\xff", 2)
