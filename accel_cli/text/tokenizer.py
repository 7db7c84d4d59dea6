"""The tokenizer: raw bytes of a line -> token ids. docs/tokenizer.md states the rule for every byte.

It is fast in plain Python because it handles all lines of a batch as one piece of text, in which a
newline is a token of its own that marks where a sentence ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from accel_cli.batches import Ints, TokenBatch
from accel_cli.text.vocabulary import PAD, UNKNOWN, Vocabulary

# Bytes of a line that are looked at, for each token that can be kept: one bound for every line.
BYTES_PER_TOKEN = 64

_WORD = rb"[a-z0-9\x80-\xff]"
_SUFFIX = rb"'(?:s|re|ve|ll|d|m)(?!" + _WORD + rb")"
_SYMBOL = re.compile(
    rb"\xe2[\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_NOT = re.compile(rb"n't(?!" + _WORD + rb")")
_TOKEN = re.compile(
    _SUFFIX + rb"|" + _WORD + rb"+(?:'(?!(?:s|re|ve|ll|d|m)(?!" + _WORD + rb"))" + _WORD + rb"+)*|[!-~\n]"
)
_END = -1


@dataclass(frozen=True)
class Encoded:
    """A batch of sentences as tokens, and which of them are cut or blank (bool [sentences])."""

    batch: TokenBatch
    truncated: npt.NDArray[np.bool_]
    blank: npt.NDArray[np.bool_]


def tokens(text: bytes) -> list[bytes]:
    """The tokens of a piece of text; a newline is a token."""
    text = text.lower()
    if not text.isascii():
        text = _SYMBOL.sub(rb" \g<0> ", text.replace(b"\xe2\x80\x99", b"'"))
    if b"n't" in text:
        text = _NOT.sub(b" n't", text)
    return _TOKEN.findall(text)


class Tokenizer:
    """Turns lines into token ids, each sentence padded to `min_tokens` and cut at `max_tokens`."""

    def __init__(self, vocabulary: Vocabulary, min_tokens: int, max_tokens: int) -> None:
        self.vocabulary = vocabulary
        self.min_tokens = min_tokens
        self.max_tokens = max_tokens
        self.max_bytes = BYTES_PER_TOKEN * max_tokens
        self._ids = {**vocabulary, b"\n": _END}

    def encode(self, lines: Sequence[bytes]) -> Encoded:
        """The lines, one sentence each, as a batch; a newline inside a line separates like a space."""
        if not lines:
            nothing = np.zeros(0, dtype=bool)
            return Encoded(TokenBatch(np.zeros(0, np.int32), np.zeros(1, np.int32)), nothing, nothing)
        sizes = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))
        long = sizes > self.max_bytes
        if long.any():
            lines = [line[: self.max_bytes] for line in lines]
        text = b"\n".join(lines) + b"\n"
        if text.count(b"\n") != len(lines):
            text = b"\n".join([line.replace(b"\n", b" ") for line in lines]) + b"\n"
        words = tokens(text)
        ids = np.fromiter(map(self._ids.get, words, repeat(UNKNOWN)), dtype=np.int32, count=len(words))
        ends = np.flatnonzero(ids == _END)
        starts = np.concatenate(([0], ends[:-1] + 1))
        return self._fit(ids, starts, ends - starts, long)

    def _fit(
        self,
        ids: Ints,
        starts: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        long: npt.NDArray[np.bool_],
    ) -> Encoded:
        """Pad and cut sentence i, which lies at `ids[starts[i]:starts[i] + counts[i]]`."""
        lengths = np.clip(counts, self.min_tokens, self.max_tokens)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        real = within < np.repeat(counts, lengths)
        source = np.where(real, within + np.repeat(starts, lengths), 0)
        fitted = np.where(real, ids[source], np.int32(PAD))
        return Encoded(TokenBatch(fitted, offsets), (counts > self.max_tokens) | long, counts == 0)
