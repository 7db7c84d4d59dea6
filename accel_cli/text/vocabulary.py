"""Vocabularies: a text file with one word a line, most frequent first; a word's id is its line, from 0."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from accel_cli.errors import WeightsError

UNKNOWN, PAD = 0, 1
SPECIAL = (b"<unk>", b"<pad>")


# Token bytes -> id; a token that is not listed has the id UNKNOWN.
Vocabulary: TypeAlias = dict[bytes, int]


def load_vocabulary(path: Path, size: int) -> Vocabulary:
    """Read a vocabulary of exactly `size` words, the special ones included, or raise WeightsError."""
    try:
        words = path.read_bytes().split(b"\n")
    except OSError as error:
        raise WeightsError(f"cannot read the vocabulary {path}: {error.strerror}") from error
    if words[-1] == b"":
        words.pop()
    if tuple(words[:2]) != SPECIAL:
        raise WeightsError(f"{path}: a vocabulary begins with the lines <unk> and <pad>, this one does not")
    if len(words) != size:
        raise WeightsError(
            f"{path}: {len(words)} words, but the configuration says vocabulary_size {size}; use the"
            " vocabulary that belongs to the weights, or correct the size"
        )
    vocabulary = dict(zip(words, range(size), strict=True))
    if len(vocabulary) != size:
        raise WeightsError(f"{path}: {size - len(vocabulary)} words are listed twice; list each once")
    return vocabulary


def save_vocabulary(path: Path, words: Iterable[bytes]) -> None:
    """Write a vocabulary: the special words, then `words`, most frequent first."""
    path.write_bytes(b"\n".join((*SPECIAL, *words)) + b"\n")
