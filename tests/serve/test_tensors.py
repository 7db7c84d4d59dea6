"""BYTES tensors: exact, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.serve import tensors
from accel_cli.serve.refusals import Refusal
from accel_cli.serve.tensors import joined_bytes, read_bytes
from serve.refused import refused_with

PLENTY = 1 << 20
# also of zeros, which lengths are found by, and longer than one byte of a length can say
TEXT = st.one_of(
    st.binary(max_size=20),
    st.text("\0\r\na", max_size=9).map(str.encode),
    st.sampled_from([b"x" * 300, b"x" * 70_000, b""]),
)
TEXTS = st.lists(TEXT, min_size=1, max_size=20)


def as_lines(texts: list[bytes]) -> list[bytes]:
    return [text.replace(b"\n", b" ").replace(b"\r", b" ") for text in texts]


def check_read(tensor: bytes, texts: list[bytes], looked_at: int = PLENTY) -> None:
    """Each text is a line, up to spaces behind it, and those only among the bytes that are looked at."""
    found = read_bytes(tensor, len(texts), looked_at)
    lines = found.lines()
    assert len(found) == len(lines) == len(texts)
    for line, text in zip(lines, as_lines(texts), strict=True):
        assert line in (text, text + b"   ")
        assert len(line) <= max(looked_at, len(text))


@given(TEXTS, st.integers(0, 400))
def test_there_and_back(texts: list[bytes], looked_at: int) -> None:
    check_read(joined_bytes(texts), texts)
    check_read(joined_bytes(texts), texts, looked_at)


@given(TEXTS, st.data())
def test_what_is_missing_or_too_much_is_refused(texts: list[bytes], data: st.DataObject) -> None:
    tensor = joined_bytes(texts)
    wrong = data.draw(st.integers(1, 30).filter(lambda count: count != len(texts)))
    with pytest.raises(Refusal):
        read_bytes(tensor, wrong, PLENTY)
    with pytest.raises(Refusal, match="bytes after its"):
        read_bytes(tensor + b"x", len(texts), PLENTY)
    with pytest.raises(Refusal, match="ends within element"):
        read_bytes(tensor[: data.draw(st.integers(0, len(tensor) - 1))], len(texts), PLENTY)


@given(st.binary(max_size=100) | st.text("\0\1\2", max_size=60).map(str.encode), st.integers(1, 20))
def test_any_bytes_are_read_or_refused(tensor: bytes, count: int) -> None:
    if refused_with(lambda: read_bytes(tensor, count, PLENTY)) is None:
        texts = tensors._walked(tensor, count)
        assert joined_bytes(texts) == tensor
        check_read(tensor, texts)


def test_a_length_beyond_the_end() -> None:
    with pytest.raises(Refusal, match="the binary tensor ends within element 1 of 2"):
        read_bytes(b"\1\0\0\0a\xff\xff\xff\xff", 2, PLENTY)


def test_usual_lengths_are_found_without_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From one byte to as many as two bytes of a length can say, an empty text among them."""
    texts = [b"a" * size for size in (*range(1, 600), 0, 65_535, 0)]
    monkeypatch.setattr(tensors, "_walked", lambda *_: pytest.fail("walked"))
    check_read(joined_bytes(texts), texts)


@pytest.mark.parametrize(
    "texts", [[b"", b""], [b"\0a"], [b"a\0\0b"], [b"a\0\0"], [b"x" * 65_536], [b"\1\0\0\0b", b"c"]]
)
def test_lengths_that_are_hidden_among_zeros(texts: list[bytes]) -> None:
    check_read(joined_bytes(texts), texts)
