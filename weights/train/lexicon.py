"""The lexicon: every token that occurs, and what the student and the teacher read in its place."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from ragged import Array, Rows, beside, from_lists, repeated

from accel_cli.text.tokenizer import tokens
from accel_cli.text.vocabulary import UNKNOWN, Vocabulary

_AUXILIARIES = "do does did is was are were has have had could would should ca wo need must ai"
TYPED = {f"{word}nt".encode(): (word.encode(), b"n't") for word in _AUXILIARIES.split()}
CHUNK = 10_000
END = 0


class Lexicon(dict[bytes, int]):
    """Token -> id; a token that is new gets the next one. The newline, which ends a text, is the first."""

    def __init__(self, words: Iterable[bytes] = (b"\n",)) -> None:
        super().__init__((word, number) for number, word in enumerate(words))

    def __missing__(self, word: bytes) -> int:
        self[word] = len(self)
        return self[word]

    def rows(self, lines: Iterable[bytes]) -> Rows:
        """Lines as ids."""
        ids, counts = [], []
        for words in _tokenized(lines):
            some = np.fromiter(map(self.__getitem__, words), np.int32, len(words))
            ends = np.flatnonzero(some == END)
            counts.append(np.diff(ends, prepend=-1) - 1)
            ids.append(some[some != END])
        return Rows(np.concatenate(ids), np.concatenate(([0], np.cumsum(np.concatenate(counts)))))

    def save(self, path: Path) -> None:
        path.write_bytes(b"\0".join(self))

    @staticmethod
    def load(path: Path) -> Lexicon:
        return Lexicon(path.read_bytes().split(b"\0"))


def _tokenized(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    lines = iter(lines)
    while some := list(islice(lines, CHUNK)):
        yield tokens(b"\n".join(some) + b"\n")


def student_ids(lexicon: Lexicon, vocabulary: Vocabulary) -> Array:
    """The vocabulary's id of each word of the lexicon."""
    return np.array([vocabulary.get(word, UNKNOWN) for word in lexicon], np.int32)


def teacher_pieces(lexicon: Lexicon, tokenizer_file: Path) -> tuple[Rows, Rows]:
    """The teacher's word pieces for each word of the lexicon; and those that begin and end its sentences.

    A word piece tokenizer splits at spaces first, so a sentence's pieces are those of its words.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    spoken = [speak(word) for word in lexicon]
    pieces = [coded.ids for coded in tokenizer.encode_batch(spoken, add_special_tokens=False)]
    return from_lists(pieces), from_lists([[piece] for piece in tokenizer.encode("").ids])


def teacher_rows(rows: Rows, pieces: Rows, ends: Rows, most: int) -> Rows:
    """Texts as the teacher reads them, cut to `most` pieces."""
    first, last = (repeated(ends[place], len(rows)) for place in (0, 1))
    return beside([first, rows.expand(pieces).cut(most - 2), last])


def speak(word: bytes) -> str:
    """A token as the teacher reads it: emoji by their names, "dont" in full."""
    if word in TYPED:
        return b"".join(TYPED[word]).decode()
    text = word.decode("utf-8", "replace")
    if len(text) == 1 and ord(text) > 0x2000 and unicodedata.category(text) == "So":
        return unicodedata.name(text, "symbol").lower()
    return text
