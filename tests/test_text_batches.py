"""Batches of text hold what the tokenizer sees in lines, whatever bytes these have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.text_marked import lines_of
from test_tokenizer import pieces

from accel_cli.batches import Predictions, TextBatch, TextPredictions
from accel_cli.text.tokenizer import Encoded, Tokenizer
from accel_cli.text.vocabulary import SPECIAL

WORDS = [*SPECIAL, *b"a it do n't 's 've . n s aa don\xe2\x80\x99t caf\xc3\xa9 \xff".split()]
VOCABULARY = {word: place for place, word in enumerate(WORDS)}
LEAST, MOST = 2, 3
TOKENIZER = Tokenizer(VOCABULARY, LEAST, MOST)
LIMIT = TOKENIZER.max_bytes

lengthy = st.tuples(
    st.sampled_from([b"a", b" ", b"it's\n", b"\r", b"n't ", b"\xe2\x80\x99"]), st.integers(1, 300)
)
line = st.one_of(pieces, st.binary(max_size=40), lengthy.map(lambda part: part[0] * part[1]))


def check_same(found: Encoded, wanted: Encoded) -> None:
    assert found.batch.ids.tolist() == wanted.batch.ids.tolist()
    assert found.batch.offsets.tolist() == wanted.batch.offsets.tolist()
    assert found.truncated.tolist() == wanted.truncated.tolist()
    assert found.blank.tolist() == wanted.blank.tolist()


@given(st.lists(line, max_size=12), st.integers(1, 12), st.integers(LIMIT + 2, 3 * LIMIT))
def test_any_lines_in_any_parts(lines: list[bytes], most: int, size: int) -> None:
    batch = TextBatch.of(lines)
    assert len(batch) == len(lines)
    read: list[bytes] = []
    for part in batch.parts(most, size):
        assert len(part) <= most
        assert len(part.text) <= size
        assert part.text.endswith(b"\n") or not lines
        found = lines_of(part.text)
        assert len(found) == len(part)
        read += found
    check_same(TOKENIZER.encode(read), TOKENIZER.encode(lines))


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], b""),
        ([b""], b"\n"),
        ([b"", b"a", b""], b"\na\n\n"),
        ([b"a\nb", b"c"], b"a b\nc\n"),
        ([b"a\r", b"\r\n", b"b\r\r"], b"a \n  \nb  \n"),
        ([b"\x00\xff"], b"\x00\xff\n"),
    ],
)
def test_a_line_holds_neither_newline_nor_carriage_return(lines: list[bytes], text: bytes) -> None:
    assert TextBatch.of(lines) == TextBatch(text, len(lines))


def test_parts_are_as_large_as_they_may_be() -> None:
    batch = TextBatch.of([b"aa"] * 7)
    assert [part.count for part in batch.parts(7, 21)] == [7]
    assert [part.count for part in batch.parts(7, 20)] == [6, 1]
    assert [part.count for part in batch.parts(3, 100)] == [3, 3, 1]


def test_only_a_line_that_does_not_fit_is_cut() -> None:
    batch = TextBatch.of([b"a", b"b" * 10, b"c" * 9, b"d"])
    assert [part.text for part in batch.parts(9, 10)] == [
        b"a\n",
        b"bbbbbbbbb\n",
        b"ccccccccc\n",
        b"d\n",
    ]


def test_predictions_of_texts_are_put_together() -> None:
    logits = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 0.5]], np.float32)
    lengths, flags = np.array([4, 5, 6], np.int32), np.array([[True, False, True], [False, True, False]])

    def rows(*kept: int) -> TextPredictions:
        found, places = Predictions.from_logits(logits), list(kept)
        return TextPredictions(
            logits[places], found.scores[places], found.labels[places], lengths[places], *flags[:, places]
        )

    found = TextPredictions.concatenate([rows(0), rows(1, 2)])
    assert found.logits.tolist() == logits.tolist()
    assert found.labels.tolist() == [1, 0, 1]
    assert found.lengths.tolist() == [4, 5, 6]
    assert found.truncated.tolist() == [True, False, True]
    assert found.blank.tolist() == [False, True, False]
