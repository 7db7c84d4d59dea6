"""Texts in one piece are those they were made of, one by one and as a batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.batches import TextBatch
from accel_cli.text.chunks import TextChunk
from accel_cli.text.joined import JoinedTexts

text = st.lists(st.sampled_from([b"", b"a", b"two words", b"\n", b"\r", b"\0", b"\xc3", b"\xa9"])).map(
    b"".join
)


@given(st.lists(text))
def test_any_texts(texts: list[bytes]) -> None:
    joined = JoinedTexts.of(texts)
    assert len(joined) == len(texts)
    assert list(joined) == texts
    assert [joined[place] for place in range(-len(texts), len(texts))] == texts * 2
    assert joined[1:-1] == texts[1:-1]
    assert joined.batch() == TextChunk(joined, 1).batch() == TextBatch.of(texts)


def test_texts_begin_and_end_at_their_places() -> None:
    joined = JoinedTexts(b"ab\nc", np.array([0, 0, 3, 4, 4]))
    assert list(joined) == [b"", b"ab\n", b"c", b""]
    assert joined.batch() == TextBatch(b"\nab \nc\n\n", 4)
    with pytest.raises(IndexError):
        joined[4]
