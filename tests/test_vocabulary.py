"""The vocabulary file: a word a line, a word's id is its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_cli.errors import WeightsError
from accel_cli.text.vocabulary import PAD, UNKNOWN, load_vocabulary, save_vocabulary


def test_a_word_has_the_number_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    words = [b"the", b"'s", b"\xff\x80", "\u0085".encode(), "\u2028".encode(), b"\x0c", b"a\r"]
    save_vocabulary(path, words)
    found = load_vocabulary(path, 9)
    assert found == {b"<unk>": UNKNOWN, b"<pad>": PAD, **{word: i + 2 for i, word in enumerate(words)}}
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))  # a missing last newline changes nothing
    assert load_vocabulary(path, 9) == found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "begins with the lines <unk> and <pad>"),
        (b"<pad>\n<unk>\nthe\n", "begins with the lines <unk> and <pad>"),
        (b"<unk>\r\n<pad>\r\nthe\r\n", "begins with the lines <unk> and <pad>"),
        (b"<unk>\n<pad>\n", "2 words, but the configuration says vocabulary_size 3"),
        (b"<unk>\n<pad>\na\nb\n", "4 words, but the configuration says vocabulary_size 3"),
        (b"<unk>\n<pad>\n<pad>\n", "1 words are listed twice; list each once"),
    ],
)
def test_a_vocabulary_that_cannot_be(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(WeightsError) as failure:
        load_vocabulary(path, 3)
    assert words in str(failure.value)
    assert str(path) in str(failure.value)


@pytest.mark.parametrize(("name", "reason"), [("none.txt", "No such file"), (".", "Is a directory")])
def test_a_vocabulary_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(WeightsError, match=rf"cannot read the vocabulary .*: {reason}"):
        load_vocabulary(tmp_path / name, 3)
